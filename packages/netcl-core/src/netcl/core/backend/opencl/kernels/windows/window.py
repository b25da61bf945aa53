"""Sliding windows on OpenCL devices: pooling, unfolding and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from netcl.core.backend.opencl.templates import Traits, per_work_item, source, struct, traits
from netcl.core.storage.data import TensorData

_GROUP = 128  # work-items of a group with one element each
_OWN_STEPS = (1, 2)  # strides that are worth loops of their own


class _Launch(NamedTuple):
    shape: tuple[int, ...]
    items: int
    argument: Any
    narrow: bool  # all positions fit in 32 bits
    fixed: str  # statements that set constants of a GPU's program, or none
    plain: bool  # on a CPU: all windows are inside, or for a gradient share no element


def _triple(values: Sequence[int], fill: int) -> tuple[int, ...]:
    return (fill,) * (3 - len(values)) + tuple(values)


@lru_cache(maxsize=512)
def _launch_of(
    kind: str,
    x: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    dilation: tuple[int, ...],
    shape: tuple[int, ...] | None,
    include: bool,
    divisor: int,
    device: Traits,
) -> _Launch:
    rank = len(kernel)
    backward = kind in ("max_grad", "avg_grad", "col2im")
    image = shape if backward and shape is not None else x
    extent = image[-rank:]
    if kind in ("max_grad", "avg_grad"):
        out = x[-rank:]
    elif kind in ("max", "avg") and shape is not None:
        out = shape[-rank:]
    else:
        sizes = zip(extent, kernel, stride, padding, dilation)
        out = tuple((size + low + high - d * (k - 1) - 1) // s + 1 for size, k, s, (low, high), d in sizes)
    if kind in ("max", "avg"):
        shape = image[:-rank] + out
    elif kind == "im2col":
        shape = (image[0] * prod(out), image[1] * prod(kernel))
    else:
        shape = image
    spatial = extent if backward else out
    planes = image[0] if kind == "im2col" else prod(image[:-rank])
    rows = planes * prod(spatial[:-1])
    block = max(1, per_work_item(rows, device, spatial[-1] * prod(kernel)))
    items = -(-rows // block)
    if not device.is_cpu:
        elements = rows * spatial[-1] * (image[1] * prod(kernel) if kind == "im2col" else 1)
        items = -(-elements // _GROUP) * _GROUP
    # Sections multiply positions by extents.
    most = max(prod(image), prod(shape), *(size * count for size, count in zip(extent, out)))
    narrow = not device.is_cpu and most + _GROUP < 1 << 31
    geometry = {
        "taps": _triple(kernel, 1), "stride": _triple(stride, 1), "dilation": _triple(dilation, 1),
        "low": _triple([low for low, _ in padding], 0), "high": _triple([high for _, high in padding], 0),
    }  # fmt: skip
    channels = image[1] if len(image) > rank + 1 else 1
    head = (rows, block, channels, int(include), divisor)
    argument = struct(*head, _triple(extent, 1), _triple(out, 1), *geometry.values(), narrow=narrow)
    fixed = ""
    if not device.is_cpu and 0 not in stride:
        fixed = " ".join(f"g.{name}[{d}] = {n};" for name, values in geometry.items() for d, n in enumerate(values))
    lengths = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    if kind == "max":
        reach = [s * (count - 1) + length for s, count, length in zip(stride, out, lengths)]
        plain = not any(low for low, _ in padding) and all(far <= size for far, size in zip(reach, extent))
    else:
        plain = kind == "max_grad" and all(s >= length for s, length in zip(stride, lengths))
    plain = plain and device.is_cpu and 0 not in stride and prod(extent) < 1 << 31
    return _Launch(shape, items, argument, narrow, fixed, plain)


# The file and the kernel of each kind; of those on CPUs with ``_Launch.plain``.
_PLAIN = {"max": "window_max_inside", "max_grad": "window_max_apart"}
_PLAIN_DTYPES = ("float32", "float16", "bfloat16")
_KERNELS = {
    "max": ("window_pool_forward", "max_forward"),
    "max_grad": ("window_pool_gradient", "max_gradient"),
    "avg": ("window_pool_forward", "avg_forward"),
    "avg_grad": ("window_pool_gradient", "avg_gradient"),
    "im2col": ("window_unfold", "unfold"),
    "col2im": ("window_fold", "fold"),
}


@lru_cache(maxsize=64)
def _plain_program(kind: str, dtype: str, device: Traits) -> str:
    """Returns the text of a kernel of ``_PLAIN``."""
    lanes = device.vector
    defines = (
        (f"DTYPE_{dtype.upper()}", 1), ("VECTOR", lanes), ("PLACE", "long"), ("DIVIDED", "ulong"),
        ("INTV", f"int{lanes}"), ("ILOAD(p)", f"vload{lanes}(0, p)"), ("ISTORE(x, p)", f"vstore{lanes}(x, 0, p)"),
    )  # fmt: skip
    return source(("storage", "gathered", "window", _PLAIN[kind]), defines)


@lru_cache(maxsize=256)
def _program(kind: str, dtype: str, step: int, single: bool, narrow: bool, fixed: str) -> str:
    """Returns the text for windows at a distance of ``step`` along the last dimension; ``single``: with an element for
    each work-item; ``fixed``: statements that set constants of the windows.
    """
    place = "int" if narrow else "long"
    defines: list[tuple[str, object]] = [(f"DTYPE_{dtype.upper()}", 1), ("PLACE", place), ("DIVIDED", f"u{place}")]
    if single:
        defines.append(("SINGLE", 1))
    if fixed:
        defines.append(("FIXED", fixed))
    if kind in ("max", "avg"):
        defines.append(("STEP", step if step in _OWN_STEPS and not single else "g.stride[2]"))
    name, kernel = _KERNELS[kind]
    defines += [("KERNEL", kernel), ("MAXIMA", int(kind in ("max", "max_grad")))]
    return source(("storage", "window", name), tuple(defines))


def window(
    engine: Any,
    kind: str,
    x: TensorData,
    *,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[Sequence[int]],
    dilation: Sequence[int],
    shape: Sequence[int] | None = None,
    indices: TensorData | None = None,
    count_include_pad: bool = True,
    divisor: int = 0,
) -> Any:
    """Windows over the last ``len(kernel)`` dimensions of ``x``.

    ``max`` gives (values, int32 places in the plane; -1 where a window holds padding only), ``avg`` the mean (the sum
    by ``divisor``, where that is not 0), both of the output size that ``shape`` names or the floor formula; ``im2col``
    gives (N * windows, C * taps). ``max_grad`` (with ``indices``), ``avg_grad`` and ``col2im`` give the gradient in
    ``shape``, the input's. A NaN is the maximum. For a stride of 0, pooling cuts an axis into sections: window o is
    floor(o * size / out) to ceil((o + 1) * size / out), and ``kernel`` the longest of them.
    """
    device = traits(engine)
    launch = _launch_of(
        kind, x.shape, tuple(kernel), tuple(stride), tuple((low, high) for low, high in padding), tuple(dilation),
        None if shape is None else tuple(shape), count_include_pad, divisor, device,
    )  # fmt: skip
    out = engine.empty(launch.shape, x.dtype)
    args = [x, out]
    if kind == "max":
        args.append(engine.empty(launch.shape, "int32"))
    elif kind == "max_grad":
        args = [x, indices, out]
    if out.size:
        if launch.plain and x.dtype in _PLAIN_DTYPES:
            text = _plain_program(kind, x.dtype, device)
        else:
            text = _program(kind, x.dtype, stride[-1], not device.is_cpu, launch.narrow, launch.fixed)
        local = (1,) if device.is_cpu else (_GROUP,) if device.group >= _GROUP else None
        engine.launch(text, _KERNELS[kind][1], (launch.items,), local, [*args, launch.argument])
    return (out, args[2]) if kind == "max" else out
