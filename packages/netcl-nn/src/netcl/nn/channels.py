"""Layers over channels and planes: shuffles, local response normalization, pooling by powers and by fractions."""

from __future__ import annotations

from typing import Any, ClassVar

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.nn import functional
from netcl.nn.layer import Layer
from netcl.nn.module import Module
from netcl.nn.pool import Upsample


class ChannelShuffle(Layer, shown=("groups",)):
    """Channels (groups, C / groups) of x (N, C, ...) in the order (C / groups, groups)."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        return ag.channel_shuffle(x, self.groups)


class LocalResponseNorm(Module):
    """x / (k + alpha mean(x^2 over ``size`` channels))^beta (Krizhevsky et al. 2012)."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size: int = size
        self.alpha: float = alpha
        self.beta: float = beta
        self.k: float = k

    def forward(self, x: Tensor) -> Tensor:
        return ag.local_response_norm(x, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class _LPPool(Layer, shown=("norm_type", "kernel_size", "stride", "ceil_mode")):
    function: ClassVar[str]

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type: float = norm_type
        self.kernel_size: Any = kernel_size
        self.stride: Any = stride
        self.ceil_mode: bool = ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        pool = getattr(ag, self.function)
        return pool(x, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)  # type: ignore[no-any-return]


class LPPool1d(_LPPool, function="lp_pool1d"):
    """The p-norm of each window of x (N, C, L), p = ``norm_type``."""


class LPPool2d(_LPPool, function="lp_pool2d"):
    """The p-norm of each window of x (N, C, H, W), p = ``norm_type``."""


class LPPool3d(_LPPool, function="lp_pool3d"):
    """The p-norm of each window of x (N, C, D, H, W), p = ``norm_type``."""


class _FractionalMaxPool(Layer):
    function: ClassVar[str]

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{type(self).__name__} takes one of output_size and output_ratio")
        self.kernel_size: Any = kernel_size
        self.output_size: Any = output_size
        self.output_ratio: Any = output_ratio
        self.return_indices: bool = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, x: Tensor) -> Any:
        pool = getattr(ag, self.function)
        options = (self.output_size, self.output_ratio, self.return_indices, self._random_samples)
        return pool(x, self.kernel_size, *options)


class FractionalMaxPool2d(_FractionalMaxPool, function="fractional_max_pool2d"):
    """The maxima of windows of x (N, C, H, W) at random positions (Graham 2014)."""


class FractionalMaxPool3d(_FractionalMaxPool, function="fractional_max_pool3d"):
    """The maxima of windows of x (N, C, D, H, W) at random positions."""


class Softmax2d(Module):
    """softmax over the channels of x (N, C, H, W) or (C, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d: expected x (N, C, H, W) or (C, H, W), got {x.shape}", op="Softmax2d")
        return ag.softmax(x, axis=-3)


class RReLU(Module):
    """x if positive, else x times a random slope in [lower, upper), or in evaluation their middle."""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower: float = lower
        self.upper: float = upper
        self.inplace: bool = inplace

    def forward(self, x: Tensor) -> Tensor:
        return functional.rrelu(x, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class UpsamplingNearest2d(Upsample):
    """Upsample of x (N, C, H, W) in the mode nearest."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample of x (N, C, H, W) in the mode bilinear with ``align_corners``."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
