"""Convolutions and transposed convolutions over one, two and three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.nn import init
from netcl.nn.layer import Layer
from netcl.nn.module import Module, check_precision
from netcl.nn.placement import new_parameter

AXES: dict[int, tuple[str, ...]] = {1: ("L",), 2: ("H", "W"), 3: ("D", "H", "W")}
Size = Any  # an int, or one per spatial axis


def per_axis(name: str, value: Size, rank: int) -> tuple[int, ...]:
    """Returns ``value`` as one int per axis; raises ValueError that names the argument."""
    sizes = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(sizes) != rank or not all(isinstance(size, int) for size in sizes):
        raise ValueError(f"{name}: expected a whole number or {rank} of them, got {value!r}")
    return sizes


def check_channels(layer: Module, x: Tensor, rank: int, channels: int) -> None:
    """Raises ShapeError with the layer's name unless x is (N, channels, spatial...) or (channels, spatial...)."""
    if x.ndim not in (rank + 1, rank + 2) or x.shape[-rank - 1] != channels:
        wanted = ", ".join((str(channels), *AXES[rank]))
        raise ShapeError(f"{layer!r}: expected x (N, {wanted}) or ({wanted}), got {x.shape}", op=type(layer).__name__)


class _Conv(Layer):
    """Base class of all convolutions: weight, bias and their initial values."""

    rank: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size,
        padding: Any,
        dilation: Size,
        groups: int,
        bias: bool,
        weight_shape: Sequence[int],
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(
                f"groups={groups} does not divide in_channels={in_channels} and out_channels={out_channels}"
            )
        self.in_channels: int = in_channels
        self.out_channels: int = out_channels
        self.groups: int = groups
        self.kernel_size: tuple[int, ...] = per_axis("kernel_size", kernel_size, self.rank)
        self.stride: tuple[int, ...] = per_axis("stride", stride, self.rank)
        self.padding: str | tuple[int, ...] = (
            padding if isinstance(padding, str) else per_axis("padding", padding, self.rank)
        )
        self.dilation: tuple[int, ...] = per_axis("dilation", dilation, self.rank)
        self.weight: ag.Parameter = new_parameter((*weight_shape, *self.kernel_size), device, dtype)
        self.register_parameter("bias", new_parameter((out_channels,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initializes the parameters again, uniform in +-1/sqrt(fan_in)."""
        init.kaiming_uniform(self.weight)
        init.uniform_around_zero_(self.bias, 1 / math.sqrt(max(1, init.fans(self.weight)[0])))

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        ones, zeros = (1,) * self.rank, (0,) * self.rank
        options: dict[str, tuple[Any, Any]] = {
            "padding": (self.padding, zeros),
            "dilation": (self.dilation, ones),
            "output_padding": (getattr(self, "output_padding", zeros), zeros),
            "groups": (self.groups, 1),
            "bias": (self.bias is not None, True),
            "padding_mode": (getattr(self, "padding_mode", "zeros"), "zeros"),
        }
        parts += [f"{name}={value}" for name, (value, default) in options.items() if value != default]
        return ", ".join(parts)


_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "replicate", "circular": "circular"}


class _Convolution(_Conv):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Any = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode not in _MODES:
            raise ValueError(f"padding_mode: expected one of {', '.join(_MODES)}, got {padding_mode!r}")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(f"padding: expected 'same', 'valid' or a size, got {padding!r}")
        shape = (out_channels, in_channels // max(1, groups))
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, shape, device, dtype
        )
        if padding == "same" and any(step != 1 for step in self.stride):
            raise ValueError(f"padding='same': expected a stride of 1, got {self.stride}")
        self.padding_mode = padding_mode

    def _pads(self) -> list[int]:
        """Returns the padding in the order of ``ag.pad``: (before, after) of each axis, the last axis first."""
        if self.padding == "valid":
            return [0] * 2 * self.rank
        if self.padding == "same":
            totals = [dilation * (size - 1) for dilation, size in zip(self.dilation, self.kernel_size)]
            pairs = [(total // 2, total - total // 2) for total in totals]
        else:
            pairs = [(int(size), int(size)) for size in self.padding]
        return [size for pair in reversed(pairs) for size in pair]

    def forward(self, x: Tensor) -> Tensor:
        check_channels(self, x, self.rank, self.in_channels)
        check_precision(self, x, self.weight)
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            x, padding = ag.pad(x, tuple(self._pads()), mode=_MODES[self.padding_mode]), 0
        convolve = getattr(ag, f"conv{self.rank}d")
        return convolve(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)  # type: ignore[no-any-return]


class Conv1d(_Convolution, rank=1):
    """Cross-correlation of x (N, in, L) with weight (out, in / groups, k), plus bias (out,)."""


class Conv2d(_Convolution, rank=2):
    """Cross-correlation of x (N, in, H, W) with weight (out, in / groups, kh, kw), plus bias (out,).

    ``padding`` is a number, one per axis, "same" or "valid"; ``padding_mode`` zeros, reflect, replicate or circular.
    """


class Conv3d(_Convolution, rank=3):
    """Cross-correlation of x (N, in, D, H, W) with weight (out, in / groups, kd, kh, kw), plus bias (out,)."""


class DepthwiseConv2d(Conv2d):
    """A depthwise Conv2d, one filter per channel: weight (channels, 1, kh, kw)."""

    def __init__(
        self,
        channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Any = 0,
        dilation: Size = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        geometry = (kernel_size, stride, padding, dilation)
        super().__init__(channels, channels, *geometry, channels, bias, padding_mode, device=device, dtype=dtype)
        self.channels = channels


class _Transposed(_Conv):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}, not {padding_mode!r}')
        shape = (in_channels, out_channels // max(1, groups))
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, shape, device, dtype
        )
        self.output_padding: tuple[int, ...] = per_axis("output_padding", output_padding, self.rank)
        self.padding_mode: str = padding_mode

    def forward(self, x: Tensor) -> Tensor:
        check_channels(self, x, self.rank, self.in_channels)
        check_precision(self, x, self.weight)
        convolve = getattr(ag, f"conv_transpose{self.rank}d")
        return convolve(  # type: ignore[no-any-return]
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation
        )


class ConvTranspose1d(_Transposed, rank=1):
    """The transpose of Conv1d: x (N, in, L), weight (in, out / groups, k)."""


class ConvTranspose2d(_Transposed, rank=2):
    """The transpose of Conv2d: x (N, in, H, W), weight (in, out / groups, kh, kw).

    Output size: (size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1.
    """


class ConvTranspose3d(_Transposed, rank=3):
    """The transpose of Conv3d: x (N, in, D, H, W), weight (in, out / groups, kd, kh, kw)."""
