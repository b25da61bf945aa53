"""The functions of ``netcl.data.augment_gpu``, by expressions that are evaluated on the device of the images.

Only this module of netcl.data imports netcl.core at run time; ``augment_gpu`` loads it when one of its functions is
called.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from netcl.data.__about__ import REQUIRES, __version__

try:
    from netcl.siblings import Checked as _Checked
except ModuleNotFoundError:
    raise ImportError(
        f"netcl-data {__version__} needs {REQUIRES[0]}, and its files are not there: pip install '{REQUIRES[0]}'"
    ) from None

with _Checked("data"):
    from netcl import ops
    from netcl.core import Tensor
    from netcl.core.dtypes import is_floating, numpy_dtype
    from netcl.core.errors import ShapeError
    from netcl.core.expr import Index, Load, Scalar, apply, cast, mean
    from netcl.core.ops_table.dispatch import evaluate
    from netcl.data.augment import LUMA


def flip_horizontal(x: Tensor, mask: Any) -> Tensor:
    """Mirrors the images of ``x`` (N, C, H, W) left to right if ``mask`` (N,) is true for them."""
    _check_images(x, "flip_horizontal")
    chosen = _per_image(x, mask, "mask", np.uint8)
    (result,) = evaluate(_choice(x.dtype, chosen.dtype), (chosen, ops.flip(x, axis=3), x))
    return result  # type: ignore[no-any-return]


def apply_color_jitter(x: Tensor, brightness: Any = None, contrast: Any = None, saturation: Any = None) -> Tensor:
    """Scales brightness, contrast (about the mean grey) and saturation (about the grey image) of ``x`` (N, C, H, W), in
    this order.

    Each factor is a number or one per image (N,); None skips that effect. The host's ``color_jitter(b, c, s)`` draws
    its factors from [max(0, 1 - b), 1 + b) and so on. Integer images are rounded and clipped to their dtype; floating
    ones are not clipped.

    Raises:
        ShapeError: a saturation is given and the images have neither 1 nor 3 channels.
    """
    _check_images(x, "apply_color_jitter")
    channels = x.shape[1]
    if saturation is not None and channels not in (1, 3):
        raise ShapeError(f"apply_color_jitter: saturation needs images of 1 or 3 channels, got {channels}")
    named = {"brightness": brightness, "contrast": contrast, "saturation": saturation if channels == 3 else None}
    options = {name: _per_image(x, value, name, np.float32) for name, value in named.items() if value is not None}
    if not options:
        return x.clone()
    # Three channels as separate inputs, so that one expression reads all of them: one load per channel.
    planes = [_channel(x, at) for at in range(channels)] if channels == 3 else [x]
    outputs = _jitter(x.dtype, tuple(options), len(planes))
    made = evaluate(outputs, (*planes, *options.values()))
    if len(made) == 1:
        return made[0]  # type: ignore[no-any-return]
    return ops.cat(list(made), axis=1)


def cutout(x: Tensor, centers: Any, size: int = 8, value: float = 0.0) -> Tensor:
    """Sets the square of ``size`` pixels about ``centers`` (N, 2), row and column, of each image of ``x`` (N, C, H, W)
    to ``value``. Squares may reach over the border.
    """
    _check_images(x, "cutout")
    if size < 1:
        raise ValueError(f"cutout: size must be at least 1, got {size!r}")
    places = np.asarray(centers.to_host() if hasattr(centers, "to_host") else centers)
    if places.shape != (x.shape[0], 2):
        raise ShapeError(f"cutout: centers has shape {places.shape}, wanted is ({x.shape[0]}, 2)")
    row, column = (_per_image(x, places[:, at], "centers", np.int32) for at in (0, 1))
    scalars = {"before": size // 2, "size": size, "value": float(value)}
    (result,) = evaluate(_box(x.dtype), (x, row, column), scalars)
    return result  # type: ignore[no-any-return]


def _check_images(x: Any, name: str) -> None:
    if len(x.shape) != 4:
        raise ShapeError(f"{name} takes images (N, C, H, W), got shape {tuple(x.shape)}")


def _per_image(x: Tensor, value: Any, name: str, dtype: npt.DTypeLike) -> Tensor:
    """Returns a number, (N,) host values or a tensor of them as a tensor (N, 1, 1, 1) on the device of ``x``."""
    n = x.shape[0]
    if isinstance(value, Tensor):
        if value.shape != (n,):
            raise ShapeError(f"{name} has shape {value.shape}, wanted is one value per image, ({n},)")
        return value.reshape((n, 1, 1, 1))
    values = np.asarray(value)
    if values.shape not in ((), (n,)):
        raise ShapeError(f"{name} has shape {values.shape}, wanted is one value per image, ({n},)")
    host = np.ascontiguousarray(np.broadcast_to(values.astype(dtype), (n,)))
    made: Tensor = Tensor.from_host(x.queue, host.reshape(n, 1, 1, 1))
    return made


def _channel(x: Tensor, at: int) -> Any:
    return ops.getitem(x, (slice(None), slice(at, at + 1)))


@lru_cache(maxsize=32)
def _choice(dtype: str, chosen: str) -> tuple[Any, ...]:
    return (apply("where", apply("ne", Load(0, chosen), 0), Load(1, dtype), Load(2, dtype)),)


@lru_cache(maxsize=32)
def _box(dtype: str) -> tuple[Any, ...]:
    before, size = Scalar("before", "int32"), Scalar("size", "int32")

    def within(slot: int, axis: int) -> Any:
        start, position = Load(slot, "int32") - before, Index(axis)
        return (position >= start) & (position < start + size)

    inside = within(1, 2) & within(2, 3)
    return (apply("where", inside, cast(Scalar("value", "float32"), dtype), Load(0, dtype)),)


@lru_cache(maxsize=64)
def _jitter(dtype: str, effects: tuple[str, ...], channels: int) -> tuple[Any, ...]:
    """The jittered planes: one output per channel if there are three, else one output for all channels."""
    work = dtype if is_floating(dtype) else "float32"
    planes = [cast(Load(at, dtype), work) for at in range(channels)]
    for slot, effect in enumerate(effects, channels):
        factor = cast(Load(slot, "float32"), work)
        if effect == "brightness":
            planes = [plane * factor for plane in planes]
            continue
        if channels == 3:
            gray = planes[0] * float(LUMA[0]) + planes[1] * float(LUMA[1]) + planes[2] * float(LUMA[2])
            middle = mean(gray, (2, 3)) if effect == "contrast" else gray
        else:
            middle = mean(planes[0], (1, 2, 3))
        planes = [middle + (plane - middle) * factor for plane in planes]
    if is_floating(dtype):
        return tuple(planes)
    limits = np.iinfo(numpy_dtype(dtype))
    low, high = float(limits.min), float(limits.max)
    rounded = [apply("round", plane) for plane in planes]
    return tuple(cast(apply("minimum", apply("maximum", plane, low), high), dtype) for plane in rounded)
