"""Pooling, padding and resizing over one, two and three spatial axes of x (N, C, spatial...)."""

from __future__ import annotations

from typing import Any, ClassVar

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError
from netcl.nn import functional
from netcl.nn.conv import AXES, per_axis
from netcl.nn.module import Module


class _Spatial(Module):
    rank: ClassVar[int]

    def check(self, x: Tensor) -> None:
        """Raises ShapeError with the layer's name unless x is (N, C, spatial...) or (C, spatial...)."""
        if x.ndim not in (self.rank + 1, self.rank + 2):
            axes = ", ".join(("C", *AXES[self.rank]))
            raise ShapeError(f"{self!r} takes x (N, {axes}) or ({axes}), not {x.shape}", op=type(self).__name__)


class _MaxPool(_Spatial):
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

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The maximum of each window of x (N, C, L)."""

    rank = 1


class MaxPool2d(_MaxPool):
    """The maximum of each window of x (N, C, H, W); ``stride`` defaults to the window size. ``return_indices`` also
    returns flat positions.
    """

    rank = 2


class MaxPool3d(_MaxPool):
    """The maximum of each window of x (N, C, D, H, W)."""

    rank = 3


class _MaxUnpool(_Spatial):
    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size: tuple[int, ...] = per_axis("kernel_size", kernel_size, self.rank)
        self.stride: tuple[int, ...] = self.kernel_size if stride is None else per_axis("stride", stride, self.rank)
        self.padding: tuple[int, ...] = per_axis("padding", padding, self.rank)

    def forward(self, x: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        self.check(x)
        unpool = getattr(ag, f"max_unpool{self.rank}d")
        return unpool(x, indices, self.kernel_size, self.stride, self.padding, output_size)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Scatters x (N, C, L) to the positions that a MaxPool1d with ``return_indices`` returned; other elements
    are zero.
    """

    rank = 1


class MaxUnpool2d(_MaxUnpool):
    """Scatters x (N, C, H, W) to the positions that a MaxPool2d with ``return_indices`` returned; other elements are
    zero. ``output_size`` selects the size if several give the shape of x by pooling.
    """

    rank = 2


class MaxUnpool3d(_MaxUnpool):
    """Scatters x (N, C, D, H, W) to the positions that a MaxPool3d with ``return_indices`` returned; others are
    zero.
    """

    rank = 3


class _AvgPool(_Spatial):
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

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """The mean of each window of x (N, C, L)."""

    rank = 1

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


class AvgPool2d(_AvgPoolOfPlanes):
    """The mean of each window of x (N, C, H, W), including zeros of the padding if ``count_include_pad``; with
    ``divisor_override`` the sum divided by it.
    """

    rank = 2


class AvgPool3d(_AvgPoolOfPlanes):
    """The mean of each window of x (N, C, D, H, W); see AvgPool2d."""

    rank = 3


class _Adaptive(_Spatial):
    function: ClassVar[str]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        return getattr(ag, f"{self.function}{self.rank}d")(x, self.output_size)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_Adaptive):
    """Means over windows such that the output (N, C, L) has ``output_size``."""

    rank: ClassVar[int] = 1
    function: ClassVar[str] = "adaptive_avg_pool"


class AdaptiveAvgPool2d(_Adaptive):
    """Means over windows such that the output (N, C, H, W) has ``output_size``."""

    rank: ClassVar[int] = 2
    function: ClassVar[str] = "adaptive_avg_pool"


class AdaptiveAvgPool3d(_Adaptive):
    """Means over windows such that the output (N, C, D, H, W) has ``output_size``."""

    rank: ClassVar[int] = 3
    function: ClassVar[str] = "adaptive_avg_pool"


class _AdaptiveMax(_Adaptive):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices: bool = return_indices

    def forward(self, x: Tensor) -> Any:
        self.check(x)
        pool = getattr(ag, f"{self.function}{self.rank}d")
        return functional.long_positions(pool(x, self.output_size, self.return_indices))


class AdaptiveMaxPool1d(_AdaptiveMax):
    """Maxima of windows such that the output (N, C, L) has ``output_size``; with ``return_indices`` also their flat
    positions.
    """

    rank: ClassVar[int] = 1
    function: ClassVar[str] = "adaptive_max_pool"


class AdaptiveMaxPool2d(_AdaptiveMax):
    """Maxima of windows such that the output (N, C, H, W) has ``output_size``; see AdaptiveMaxPool1d."""

    rank: ClassVar[int] = 2
    function: ClassVar[str] = "adaptive_max_pool"


class AdaptiveMaxPool3d(_AdaptiveMax):
    """Maxima of windows such that the output (N, C, D, H, W) has ``output_size``; see AdaptiveMaxPool1d."""

    rank: ClassVar[int] = 3
    function: ClassVar[str] = "adaptive_max_pool"


class GlobalAvgPool2d(_Spatial):
    """The mean of each plane: (N, C, H, W) gives (N, C), (C, H, W) gives (C,)."""

    rank = 2

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
            raise ValueError(f"padding is a number or {2 * self.rank} of them, last axis first, not {padding!r}")

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


class ConstantPad1d(_ConstantPad):
    """Pads x (N, C, L) with ``value``; padding (left, right)."""

    rank = 1


class ConstantPad2d(_ConstantPad):
    """Pads x (N, C, H, W) with ``value``; padding (left, right, top, bottom)."""

    rank = 2


class ConstantPad3d(_ConstantPad):
    """Pads x (N, C, D, H, W) with ``value``; padding (left, right, top, bottom, front, back)."""

    rank = 3


class ZeroPad1d(_Pad):
    """Pads x (N, C, L) with zeros; padding (left, right)."""

    rank: ClassVar[int] = 1
    mode: ClassVar[str] = "constant"


class ZeroPad2d(_Pad):
    """Pads x (N, C, H, W) with zeros; padding (left, right, top, bottom)."""

    rank: ClassVar[int] = 2
    mode: ClassVar[str] = "constant"


class ZeroPad3d(_Pad):
    """Pads x (N, C, D, H, W) with zeros; padding (left, right, top, bottom, front, back)."""

    rank: ClassVar[int] = 3
    mode: ClassVar[str] = "constant"


class ReflectionPad1d(_Pad):
    """Pads x (N, C, L) by reflection without the edge."""

    rank: ClassVar[int] = 1
    mode: ClassVar[str] = "reflect"


class ReflectionPad2d(_Pad):
    """Pads x (N, C, H, W) by reflection without the edge."""

    rank: ClassVar[int] = 2
    mode: ClassVar[str] = "reflect"


class ReflectionPad3d(_Pad):
    """Pads x (N, C, D, H, W) by reflection without the edge."""

    rank: ClassVar[int] = 3
    mode: ClassVar[str] = "reflect"


class ReplicationPad1d(_Pad):
    """Pads x (N, C, L) by repeating the edge."""

    rank: ClassVar[int] = 1
    mode: ClassVar[str] = "replicate"


class ReplicationPad2d(_Pad):
    """Pads x (N, C, H, W) by repeating the edge."""

    rank: ClassVar[int] = 2
    mode: ClassVar[str] = "replicate"


class ReplicationPad3d(_Pad):
    """Pads x (N, C, D, H, W) by repeating the edge."""

    rank: ClassVar[int] = 3
    mode: ClassVar[str] = "replicate"


class CircularPad1d(_Pad):
    """Pads x (N, C, L) by the values of the other end."""

    rank: ClassVar[int] = 1
    mode: ClassVar[str] = "circular"


class CircularPad2d(_Pad):
    """Pads x (N, C, H, W) by the values of the other ends."""

    rank: ClassVar[int] = 2
    mode: ClassVar[str] = "circular"


class CircularPad3d(_Pad):
    """Pads x (N, C, D, H, W) by the values of the other ends."""

    rank: ClassVar[int] = 3
    mode: ClassVar[str] = "circular"


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
                f"Upsample takes size or scale_factor, one of them, not size={size}, scale_factor={scale_factor}"
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
        given = f"size={self.size}" if self.scale_factor is None else f"scale_factor={_floats(self.scale_factor)}"
        return f"{given}, mode={self.mode!r}"


class Unfold(Module):
    """The windows of x (N, C, H, W) as columns, (N, C * prod(kernel), windows)."""

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size: Any = kernel_size
        self.dilation: Any = dilation
        self.padding: Any = padding
        self.stride: Any = stride

    def forward(self, x: Tensor) -> Tensor:
        return functional.unfold(x, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
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

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )


class PixelUnshuffle(Module):
    """(N, C, H r, W r) gives (N, C r^2, H, W), the inverse of PixelShuffle."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, x: Tensor) -> Tensor:
        return ag.pixel_unshuffle(x, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class PixelShuffle(Module):
    """(N, C r^2, H, W) gives (N, C, H r, W r) (Shi et al. 2016)."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, x: Tensor) -> Tensor:
        return ag.pixel_shuffle(x, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


def _floats(value: Any) -> Any:
    """Returns numbers as PyTorch prints scale factors."""
    return float(value) if isinstance(value, (int, float)) else tuple(map(float, value))
