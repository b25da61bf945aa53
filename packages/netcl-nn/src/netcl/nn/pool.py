"""Pooling, padding and resizing over one, two and three spatial axes of x (N, C, spatial...)."""

from __future__ import annotations

from typing import Any, ClassVar

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.nn import functional
from netcl.nn.conv import AXES, per_axis
from netcl.nn.layer import Layer
from netcl.nn.module import Module


class _Spatial(Layer):
    rank: ClassVar[int]

    def check(self, x: Tensor) -> None:
        """Raises ShapeError with the layer's name unless x is (N, C, spatial...) or (C, spatial...)."""
        if x.ndim not in (self.rank + 1, self.rank + 2):
            axes = ", ".join(("C", *AXES[self.rank]))
            raise ShapeError(f"{self!r}: expected x (N, {axes}) or ({axes}), got {x.shape}", op=type(self).__name__)


class _MaxPool(_Spatial, shown=("kernel_size", "stride", "padding", "dilation", "ceil_mode")):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size: Any = kernel_size
        self.stride: Any = kernel_size if stride is None else stride
        self.padding: Any = padding
        self.dilation: Any = dilation
        self.return_indices: bool = return_indices
        self.ceil_mode: bool = ceil_mode

    def forward(self, x: Tensor) -> Any:
        self.check(x)
        pool = getattr(functional, f"max_pool{self.rank}d")
        return pool(x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)


class MaxPool1d(_MaxPool, rank=1):
    """The maximum of each window of x (N, C, L)."""


class MaxPool2d(_MaxPool, rank=2):
    """The maximum of each window of x (N, C, H, W); ``stride`` defaults to the window size. ``return_indices`` also
    returns flat positions.
    """


class MaxPool3d(_MaxPool, rank=3):
    """The maximum of each window of x (N, C, D, H, W)."""


class _MaxUnpool(_Spatial, shown=("kernel_size", "stride", "padding")):
    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size: tuple[int, ...] = per_axis("kernel_size", kernel_size, self.rank)
        self.stride: tuple[int, ...] = self.kernel_size if stride is None else per_axis("stride", stride, self.rank)
        self.padding: tuple[int, ...] = per_axis("padding", padding, self.rank)

    def forward(self, x: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        self.check(x)
        unpool = getattr(ag, f"max_unpool{self.rank}d")
        return unpool(x, indices, self.kernel_size, self.stride, self.padding, output_size)  # type: ignore[no-any-return]


class MaxUnpool1d(_MaxUnpool, rank=1):
    """Scatters x (N, C, L) to the positions that a MaxPool1d with ``return_indices`` returned; other elements
    are zero.
    """


class MaxUnpool2d(_MaxUnpool, rank=2):
    """Scatters x (N, C, H, W) to the positions that a MaxPool2d with ``return_indices`` returned; other elements are
    zero. ``output_size`` selects the size if several give the shape of x by pooling.
    """


class MaxUnpool3d(_MaxUnpool, rank=3):
    """Scatters x (N, C, D, H, W) to the positions that a MaxPool3d with ``return_indices`` returned; others are
    zero.
    """


class _AvgPool(_Spatial, shown=("kernel_size", "stride", "padding")):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size: Any = kernel_size
        self.stride: Any = kernel_size if stride is None else stride
        self.padding: Any = padding
        self.ceil_mode: bool = ceil_mode
        self.count_include_pad: bool = count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        pool = getattr(ag, f"avg_pool{self.rank}d")
        divisor = getattr(self, "divisor_override", None)
        return pool(x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, divisor)  # type: ignore[no-any-return]


class AvgPool1d(_AvgPool, rank=1):
    """The mean of each window of x (N, C, L)."""

    def extra_repr(self) -> str:
        sizes = {"kernel_size": self.kernel_size, "stride": self.stride, "padding": self.padding}
        return ", ".join(f"{name}={per_axis(name, size, 1)}" for name, size in sizes.items())


class _AvgPoolOfPlanes(_AvgPool):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override: int | None = divisor_override


class AvgPool2d(_AvgPoolOfPlanes, rank=2):
    """The mean of each window of x (N, C, H, W), including zeros of the padding if ``count_include_pad``; with
    ``divisor_override`` the sum divided by it.
    """


class AvgPool3d(_AvgPoolOfPlanes, rank=3):
    """The mean of each window of x (N, C, D, H, W); see AvgPool2d."""


class _Adaptive(_Spatial, shown=("output_size",)):
    function: ClassVar[str]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        return getattr(ag, f"{self.function}{self.rank}d")(x, self.output_size)  # type: ignore[no-any-return]


class AdaptiveAvgPool1d(_Adaptive, rank=1, function="adaptive_avg_pool"):
    """Means over windows such that the output (N, C, L) has ``output_size``."""


class AdaptiveAvgPool2d(_Adaptive, rank=2, function="adaptive_avg_pool"):
    """Means over windows such that the output (N, C, H, W) has ``output_size``."""


class AdaptiveAvgPool3d(_Adaptive, rank=3, function="adaptive_avg_pool"):
    """Means over windows such that the output (N, C, D, H, W) has ``output_size``."""


class _AdaptiveMax(_Adaptive):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices: bool = return_indices

    def forward(self, x: Tensor) -> Any:
        self.check(x)
        pool = getattr(ag, f"{self.function}{self.rank}d")
        return functional.long_positions(pool(x, self.output_size, self.return_indices))


class AdaptiveMaxPool1d(_AdaptiveMax, rank=1, function="adaptive_max_pool"):
    """Maxima of windows such that the output (N, C, L) has ``output_size``; with ``return_indices`` also their flat
    positions.
    """


class AdaptiveMaxPool2d(_AdaptiveMax, rank=2, function="adaptive_max_pool"):
    """Maxima of windows such that the output (N, C, H, W) has ``output_size``; see AdaptiveMaxPool1d."""


class AdaptiveMaxPool3d(_AdaptiveMax, rank=3, function="adaptive_max_pool"):
    """Maxima of windows such that the output (N, C, D, H, W) has ``output_size``; see AdaptiveMaxPool1d."""


class GlobalAvgPool2d(_Spatial, rank=2):
    """The mean of each plane: (N, C, H, W) gives (N, C), (C, H, W) gives (C,)."""

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        return ag.mean(x, axis=(-2, -1))


class _Pad(_Spatial):
    mode: ClassVar[str]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding: tuple[int, ...] | tuple[Any, ...] = (
            (padding,) * (2 * self.rank) if isinstance(padding, int) else tuple(padding)
        )
        if len(self.padding) != 2 * self.rank:
            raise ValueError(f"padding: expected a number or {2 * self.rank} of them, last axis first, got {padding!r}")

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        return ag.pad(x, self.padding, mode=self.mode, value=getattr(self, "value", 0.0))

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad, rank=1):
    """Pads x (N, C, L) with ``value``; padding (left, right)."""


class ConstantPad2d(_ConstantPad, rank=2):
    """Pads x (N, C, H, W) with ``value``; padding (left, right, top, bottom)."""


class ConstantPad3d(_ConstantPad, rank=3):
    """Pads x (N, C, D, H, W) with ``value``; padding (left, right, top, bottom, front, back)."""


class ZeroPad1d(_Pad, rank=1, mode="constant"):
    """Pads x (N, C, L) with zeros; padding (left, right)."""


class ZeroPad2d(_Pad, rank=2, mode="constant"):
    """Pads x (N, C, H, W) with zeros; padding (left, right, top, bottom)."""


class ZeroPad3d(_Pad, rank=3, mode="constant"):
    """Pads x (N, C, D, H, W) with zeros; padding (left, right, top, bottom, front, back)."""


class ReflectionPad1d(_Pad, rank=1, mode="reflect"):
    """Pads x (N, C, L) by reflection without the edge."""


class ReflectionPad2d(_Pad, rank=2, mode="reflect"):
    """Pads x (N, C, H, W) by reflection without the edge."""


class ReflectionPad3d(_Pad, rank=3, mode="reflect"):
    """Pads x (N, C, D, H, W) by reflection without the edge."""


class ReplicationPad1d(_Pad, rank=1, mode="replicate"):
    """Pads x (N, C, L) by repeating the edge."""


class ReplicationPad2d(_Pad, rank=2, mode="replicate"):
    """Pads x (N, C, H, W) by repeating the edge."""


class ReplicationPad3d(_Pad, rank=3, mode="replicate"):
    """Pads x (N, C, D, H, W) by repeating the edge."""


class CircularPad1d(_Pad, rank=1, mode="circular"):
    """Pads x (N, C, L) by the values of the other end."""


class CircularPad2d(_Pad, rank=2, mode="circular"):
    """Pads x (N, C, H, W) by the values of the other ends."""


class CircularPad3d(_Pad, rank=3, mode="circular"):
    """Pads x (N, C, D, H, W) by the values of the other ends."""


class Upsample(Module):
    """Resizes x (N, C, spatial...) to ``size`` or by ``scale_factor``, in a mode of ``ag.interpolate``."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        if (size is None) == (scale_factor is None):
            raise ValueError(
                f"Upsample: expected either size or scale_factor, got size={size}, scale_factor={scale_factor}"
            )
        self.size: Any = size
        self.scale_factor: Any = scale_factor
        self.mode: str = mode
        self.align_corners: bool | None = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, x: Tensor) -> Tensor:
        options = (self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor)
        return ag.interpolate(x, *options)

    def extra_repr(self) -> str:
        size = f"size={self.size}" if self.scale_factor is None else f"scale_factor={_floats(self.scale_factor)}"
        return f"{size}, mode={self.mode!r}"


class Unfold(Layer, shown=("kernel_size", "dilation", "padding", "stride")):
    """The windows of x (N, C, H, W) as columns, (N, C * prod(kernel), windows)."""

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size: Any = kernel_size
        self.dilation: Any = dilation
        self.padding: Any = padding
        self.stride: Any = stride

    def forward(self, x: Tensor) -> Tensor:
        return functional.unfold(x, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(Layer, shown=("output_size", "kernel_size", "dilation", "padding", "stride")):
    """Columns x (N, C * prod(kernel), windows) summed into images (N, C, *output_size); the adjoint of Unfold."""

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size: Any = output_size
        self.kernel_size: Any = kernel_size
        self.dilation: Any = dilation
        self.padding: Any = padding
        self.stride: Any = stride

    def forward(self, x: Tensor) -> Tensor:
        return functional.fold(x, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)


class PixelUnshuffle(Layer, shown=("downscale_factor",)):
    """(N, C, H r, W r) gives (N, C r^2, H, W), the inverse of PixelShuffle."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, x: Tensor) -> Tensor:
        return ag.pixel_unshuffle(x, self.downscale_factor)


class PixelShuffle(Layer, shown=("upscale_factor",)):
    """(N, C r^2, H, W) gives (N, C, H r, W r) (Shi et al. 2016)."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, x: Tensor) -> Tensor:
        return ag.pixel_shuffle(x, self.upscale_factor)


def _floats(value: Any) -> Any:
    """Returns numbers as PyTorch prints scale factors."""
    return float(value) if isinstance(value, (int, float)) else tuple(map(float, value))
