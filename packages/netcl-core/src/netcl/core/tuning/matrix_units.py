"""Chooses a matrix unit: the verdict on each unit of the table for a device, the products for which a unit pays, and
their tiles.

``unit_of`` returns the first unit of the table for the device that can run the product and computed right results in a
child process, once for each driver version.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from threading import Thread
from typing import Any

from netcl.core import config
from netcl.core.device.capabilities import DeviceProfile, device_profile
from netcl.core.device.drivers.child_probe import driver_key, stored, verdict
from netcl.core.process.settings import usable_cores
from netcl.core.tuning.problems import Contraction, Geometry, dense_steps
from netcl.core.tuning.tiles import LAUNCH_US, tile_time, tiles_of, wide_times
from netcl.core.tuning.traits import Traits, traits_of
from netcl.core.tuning.unit_table import (
    HALVES,
    INSTRUCTIONS,
    KINDS,
    PARTS,
    UNITS,
    MatrixUnit,
    UnitTile,
    compute_capability,
    kind_of,
)

CHUNK = 8  # elements of a copy to local memory, which begin at multiples of 16 bytes to be copied asynchronously
_LEAST_ROWS = 8  # of a result; below, reading the operands takes all the time
_LEAST_K = 16
_LEAST_K_OF_PARTS, _LEAST_OF_PARTS, _LARGE = 256, 64, 1 << 28  # k, rows and columns, and products of a matrix
_LARGE_ROUNDED = 1 << 32  # products above which rounding the operands before takes less time than it saves
_LEAST_PRODUCTS = 1 << 26  # of a convolution: below, its copies take all the time
_MOST_STRIDE = 2  # of a gradient by images: with 2, three of four products are by zeros
_LEAST_SPLIT = 256  # least products of a partial sum
_MOST_ROUNDED = 9  # splits below which fill the last round of work-groups, where tiles are not few
_LEAST_SCORES = 1 << 21  # of attention of operands in parts: below, splitting the operands takes all the time
_TIMEOUT_S = 120.0
_MOST_CHILDREN = 4  # of a trial: an H200's takes 10 to 17 s in one and 4 to 7 s in four
_FOR_BOTH = 8  # cores on which attention is tried next to products
# Of a large GPU (H100), for estimates: products of a compute unit in a microsecond (a tile has a share of them).
_PRODUCTS_PER_US = 2.65e6
# Of float32 operands in parts: the time of a product over that of its products of planes, with sums added outside
# the unit, and the elements that are split in a microsecond.
_SUMS_OUTSIDE, _SPLIT_PER_US = 1.55, 1.6e5


# Products of planes by parts: which plane of A and of B, the smallest product first.
PRODUCTS = {
    0: ((0, 0),), 1: ((0, 0),), 2: ((0, 1), (1, 0), (0, 0)), 3: ((0, 2), (1, 1), (2, 0), (0, 1), (1, 0), (0, 0)),
}  # fmt: skip

# os._exit skips the driver's shutdown, which is not tested.
# Modules of netcl.core.backend.opencl with a `run_trial`.
PRODUCTS_TRIAL, ATTENTION_TRIAL = "contraction.unit_trial", "kernels.softmax_attention.attention_unit"
_CHILD = """\
import os
from netcl.core.backend.opencl.{module} import run_trial
os._exit(run_trial({name!r}, sys.argv[1], *map(int, sys.argv[2:])))
"""


def parts_of(dtype: str, precision: str = "highest") -> int | None:
    """Returns the parts of attention's operands of a dtype on a unit, 0 for operands of 16 bits; None if no unit
    computes attention of the dtype.

    ``precision`` is the precision of float32 operands, by PyTorch's names. With NETCL_KERNEL_STRATEGY=portable it
    returns None.
    """
    if config.get("KERNEL_STRATEGY") == "portable":
        return None
    return PARTS.get(precision) if dtype == "float32" else 0 if dtype in HALVES else None


def unit_of(profile: DeviceProfile, dtype: str, precision: str, c: Contraction) -> str | None:
    """Returns the matrix unit of a device for a product of operands of a dtype, or None: the first unit that suits it,
    if it pays. At the first such product for a driver version, each unit that the device may have is tried in a child
    process.

    ``precision`` is the precision of float32 operands, by PyTorch's names. With NETCL_KERNEL_STRATEGY=portable there is
    none.
    """
    if config.get("KERNEL_STRATEGY") == "portable":
        return None
    for name in candidates(profile, dtype, precision):
        if suits(name, c) and is_right(profile._device, name):
            return name if pays(name, traits_of(profile), c) else None
    return None


def convolution_unit_of(profile: DeviceProfile, dtype: str, kind: str, g: Geometry) -> str | None:
    """Returns the matrix unit of a device for a direction of a convolution, or None, as ``unit_of``."""
    if config.get("KERNEL_STRATEGY") == "portable" or dtype not in HALVES or not convolves(kind, g):
        return None
    return next((name for name in candidates(profile, dtype) if is_right(profile._device, name)), None)


def candidates(profile: DeviceProfile, dtype: str = "bfloat16", precision: str = "highest") -> tuple[str, ...]:
    """Returns the units for operands of a dtype that a device may have, by what its driver reports."""
    if profile._device is None:
        return ()
    return _candidates(profile, profile._device, dtype, precision if dtype == "float32" else None)


@lru_cache(maxsize=256)
def _candidates(profile: DeviceProfile, device: Any, dtype: str, precision: str | None) -> tuple[str, ...]:
    return tuple(
        unit.name
        for unit in UNITS.values()
        if dtype in unit.dtypes and (precision is None or precision in unit.precisions) and unit.possible_on(profile)
    )


def local_memory(profile: DeviceProfile) -> int:
    """Returns the bytes of local memory that a work-group may declare: of NVIDIA's GPUs more than the driver reports,
    by their compute capability (CUDA C Programming Guide, technical specifications).
    """
    capability = compute_capability(profile)
    if capability is None:
        return int(profile.local_mem_size)
    return {(8, 0): 163, (8, 7): 163, (9, 0): 227, (10, 0): 227}.get(capability, 99) * 1024


@lru_cache(maxsize=256)
def is_right(device: Any, name: str) -> bool:
    """True if the unit ``name`` computed right products on the device in a child process. A unit that was never run on
    hardware must also have been faster than the kernel without it.
    """
    key, trial = driver_key(device), _CHILD.format(module=PRODUCTS_TRIAL, name=name)
    row, probe = UNITS[name], f"matrix_unit_{name}"
    if stored(probe, key, trial) is None:
        _try_attention_meanwhile(device, row)
    return verdict(probe, key, trial, _TIMEOUT_S, key, shares=_shares(), unexpected=row.ran)


def try_ahead(profile: DeviceProfile) -> None:
    """Tries a device's unit of float32 products ahead of its first use, if cores are idle: a first net would wait."""
    if config.get("KERNEL_STRATEGY") == "portable" or usable_cores() < _FOR_BOTH:
        return
    for name in candidates(profile, "float32")[:1]:
        is_right(profile._device, name)


def _try_attention_meanwhile(device: Any, row: MatrixUnit) -> None:
    """Starts the trial of attention during the trial of a product on the same unit, if cores are idle: a model with
    attention would wait for both in turn.
    """
    name = _attention_unit(row.parts)
    computes = (row.parts or row.dtypes == HALVES) and UNITS[name].possible_on(device_profile(device))
    if computes and usable_cores() >= _FOR_BOTH:
        Thread(target=_attention_is_right, args=(device, name), daemon=True).start()


def attention_unit_of(profile: DeviceProfile, parts: int = 0) -> str | None:
    """Returns the matrix unit on which a device computes attention of operands of so many ``parts``, or None: a unit of
    fragments in registers. Its kernels are tried in a child process at the first call for a driver version.
    """
    name = _attention_unit(parts)
    if config.get("KERNEL_STRATEGY") == "portable" or profile._device is None or not UNITS[name].possible_on(profile):
        return None
    return name if _attention_is_right(profile._device, name) else None


def _attention_unit(parts: int) -> str:
    return f"mma_{parts}" if parts else "mma"


def _attention_is_right(device: Any, name: str) -> bool:
    key, trial = driver_key(device), _CHILD.format(module=ATTENTION_TRIAL, name=name)
    return verdict(f"attention_{name}", key, trial, _TIMEOUT_S, key, shares=_shares(), unexpected=True)


def _shares() -> int:
    """Returns the children that build the programs of a trial at once: a compiler keeps about one core busy."""
    return max(1, min(_MOST_CHILDREN, usable_cores() // 2))


def attention_pays(parts: int, scores: int) -> bool:
    """True if attention with so many ``scores`` in all heads is expected to be the fastest on a unit."""
    return not parts or scores >= _LEAST_SCORES


@lru_cache(maxsize=1024)
def fits(unit: str, c: Contraction) -> bool:
    """True if a unit can run a contraction: its operands are contiguous along k or across it."""
    row = UNITS[unit]
    words = KINDS[kind_of(row.tiles[0].tile, row.dtypes[0])].words
    steps = dense_steps(c, words)
    if steps is None or c.accumulate or c.partial or prod(c.k) < _LEAST_K:
        return False
    a_k, b_k, b_n, _ = steps
    if words > 1 and not INSTRUCTIONS[row.base].across:
        return a_k == b_k == 1
    return 1 in (a_k, c.a_row) and 1 in (b_k, b_n)


@lru_cache(maxsize=1024)
def suits(unit: str, c: Contraction) -> bool:
    """True if a unit can run a contraction, is as exact as the operands' dtype requires, and has products enough.

    Products of float32 operands in three parts are, from a K of 256 on, at least as exact as sums of float32 products
    in order (ADR 0041). Rounding the operands pays for large products, and so does the trial of a unit for elements of
    more than 16 bits.
    """
    if c.empty or not fits(unit, c):
        return False
    row, least, k = UNITS[unit], min(c.m, prod(c.n)), prod(c.k)
    products = c.m * prod(c.n) * k
    if row.dtypes == HALVES:
        return least >= _LEAST_ROWS
    if row.parts:
        return k >= _LEAST_K_OF_PARTS and least >= _LEAST_OF_PARTS and products >= _LARGE
    return least >= _LEAST_OF_PARTS and products >= (_LARGE_ROUNDED if INSTRUCTIONS[row.base].rounded else _LARGE)


@lru_cache(maxsize=1024)
def pays(unit: str, device: Traits, c: Contraction) -> bool:
    """True if a unit that suits a product is expected to be faster than the kernel without it: always, but of operands
    in parts by the estimated times, with the time of splitting them.
    """
    if not UNITS[unit].parts:
        return True
    split = 2 * LAUNCH_US + prod(c.k) * (c.m + prod(c.n)) * prod(c.batch) / _SPLIT_PER_US
    return split + _SUMS_OUTSIDE * min(_times(unit, device, c).values()) < min(wide_times(device, c).values())


@lru_cache(maxsize=1024)
def convolves(kind: str, g: Geometry) -> bool:
    """True if a unit can run a direction of a convolution of operands of 16 bits, on images with adjacent channels, and
    is expected to be the fastest. It must have dense filters of two dimensions with equal strides; the gradient by
    images a stride of 1 or 2, since with larger strides most products are by zeros.

    Of float32 operands in parts the copies and planes cost more than the unit saves (a ResNet-18 step with 256 images
    on an H100: 52 ms, without 48).
    """
    high, wide = g.kernel[1:]
    (low_y, end_y), (low_x, end_x) = g.padding[1:]
    stride = g.stride[1]
    plain = g.groups == 1 and g.dilation == (1, 1, 1) and g.size[0] == g.kernel[0] == 1
    plain = plain and g.stride == (1, stride, stride) and (kind != "grad_input" or stride <= _MOST_STRIDE)
    pads = (low_y, end_y, low_x, end_x)
    if not plain or min(pads) < 0 or 0 in (g.batch, g.channels, g.filters, *g.out):
        return False
    pixels = g.batch * (g.out[1] * stride + high - 1) * (g.out[2] * stride + wide - 1)
    m = g.channels if kind == "grad_input" else g.filters
    if kind == "grad_input":
        if max(low_y, end_y) >= high or max(low_x, end_x) >= wide:
            return False
        pixels = g.batch * (g.size[1] + high - 1) * (g.size[2] + wide - 1)
    if pixels * max(g.channels, g.filters, CHUNK) >= 1 << 30:
        return False
    filters = g.filters * g.channels * high * wide
    products = filters * g.batch * g.out[1] * g.out[2]
    return m >= _LEAST_ROWS and products >= _LEAST_PRODUCTS and filters < 1 << 30


@lru_cache(maxsize=1024)
def tile_of(unit: str, device: Traits, c: Contraction) -> UnitTile:
    """Returns the tile of a product with the least estimated time, with split-K if sums are long and tiles are few or
    leave compute units idle in their last round.
    """
    times = _times(unit, device, c)
    return min(times, key=times.__getitem__)


def _times(unit: str, device: Traits, c: Contraction) -> dict[UnitTile, float]:
    """Returns the estimated microseconds of each tile on a large GPU."""
    times = {}
    for tile, *shares in UNITS[unit].tiles:
        span, passes = (tile.m, tile.n), len(PRODUCTS[tile.parts])
        few, most = device.units // tiles_of(c, span), prod(c.k) // _LEAST_SPLIT
        for splits in {1, *(min(splits, most) or 1 for splits in (*range(2, _MOST_ROUNDED), few, 2 * few))}:
            time = tile_time(device, c, span, splits, shares, _PRODUCTS_PER_US, passes)
            times[tile._replace(splits=splits)] = time
    return times
