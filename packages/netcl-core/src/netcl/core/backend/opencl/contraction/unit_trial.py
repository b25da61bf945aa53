"""Tries a matrix unit in a child process: products in each layout must have the right bits, and a unit that was never
run on hardware must be faster than the kernel without it.
"""

from __future__ import annotations

from math import inf
from time import perf_counter
from typing import Any

import numpy as np

from netcl.core.backend.opencl.contraction import launch
from netcl.core.backend.opencl.contraction.matrix_unit.matrix_units import contract, engine_of_driver
from netcl.core.device.drivers.child_probe import RIGHT, SLOWER, WRONG
from netcl.core.tuning.problems import Contraction
from netcl.core.tuning.unit_table import INSTRUCTIONS, KINDS, UNITS, UnitTile, kind_of

_TIMED_SIZE, _TIMED_RUNS = 1024, 6  # of the products that compare a unit with the kernel without it


def run_trial(name: str, key: str, share: int = 0, shares: int = 1) -> int:
    """Returns the exit code of a trial of the unit ``name`` on the first device with the driver ``key``: products of
    small integers with exact sums, with tails, must have the right bits in each layout. It tries every ``shares``-th
    case, from number ``share`` on. A unit that was never run on hardware must also be faster than the kernel without
    it.

    Raises LookupError if there is no such device.
    """
    engine = engine_of_driver(key)
    if not all(_multiplies(engine, *case) for case in _cases(name)[share::shares]):
        return WRONG
    return RIGHT if UNITS[name].ran or share or _is_faster(engine, name) else SLOWER


def _is_faster(engine: Any, name: str) -> bool:
    """True if a square product takes less time on the unit than without it."""
    ones = np.ones((_TIMED_SIZE, _TIMED_SIZE), np.float32)
    a, b, out = (engine.tensor(ones, UNITS[name].dtypes[0]) for _ in range(3))
    c = _product((_TIMED_SIZE, _TIMED_SIZE, _TIMED_SIZE), (True, True))
    times: dict[str | None, float] = {}
    for variant in (name, None):  # None: the kernel without a unit
        for _ in range(_TIMED_RUNS):  # the first builds the kernel
            start = perf_counter()
            launch.contract(engine, c, a, b, out, variant=variant)
            engine.finish()
            times[variant] = min(times.get(variant, inf), perf_counter() - start)
    return times[name] < times[None]


def _product(sizes: tuple[int, int, int], along: tuple[bool, bool]) -> Contraction:
    """Returns the product of an m x k and a k x n matrix, contiguous along k if ``along``, else across it."""
    m, n, k = sizes
    a_row, a_k = (k, 1) if along[0] else (1, m)
    b_n, b_k = (k, 1) if along[1] else (1, n)
    return Contraction(
        m=m, k=(1, 1, 1, k), n=(1, 1, 1, n), a_row=a_row, a_k=(0, 0, 0, a_k), b_k=(0, 0, 0, b_k),
        b_n=(0, 0, 0, b_n), out_row=n, out_n=(0, 0, 0, 1),
    )  # fmt: skip


def _cases(name: str) -> list[tuple[str, UnitTile, tuple[bool, bool], tuple[int, int, int]]]:
    """Returns the dtype, tile, layout and sizes of each product of a trial: each tile, each layout and each dtype, but
    few of their combinations, since each is a program to build.
    """
    row = UNITS[name]
    first, *others = (rated.tile for rated in row.tiles)
    layouts = ((True, True), (True, False), (False, True), (False, False))
    if KINDS[kind_of(first, row.dtypes[0])].words > 1 and not INSTRUCTIONS[first.base].across:
        layouts = ((True, True),) * 4
    programs = [(row.dtypes[0], first, layout) for layout in dict.fromkeys(layouts)]
    programs += [(dtype, first, layouts[1]) for dtype in row.dtypes[1:]]
    programs += [(row.dtypes[i % len(row.dtypes)], tile, layouts[i % 4]) for i, tile in enumerate(others)]
    return [(*program, (264, 392, 136)) for program in programs] + [(row.dtypes[0], first, layouts[1], (70, 83, 41))]


def _multiplies(engine: Any, dtype: str, tile: UnitTile, along: tuple[bool, bool], sizes: tuple[int, int, int]) -> bool:
    """True if a product of small integers, with exact sums, has the right bits in every element."""
    rng, (m, n, k) = np.random.default_rng(0), sizes
    most = 2 ** (9 if tile.parts == 3 else 3)  # so that sums are exact, and with three parts A and B have several
    a = rng.integers(-most, most, (m, k) if along[0] else (k, m)).astype(np.float32)
    b = rng.integers(-most, most, (n, k) if along[1] else (k, n)).astype(np.float32)
    exact = (a if along[0] else a.T).astype(np.float64) @ (b.T if along[1] else b)
    left, right, out, expected = (engine.tensor(x, dtype) for x in (a, b, np.full((m, n), np.nan), exact))
    contract(engine, _product(sizes, along), tile, left, right, out, 0)
    return bool(np.array_equal(engine.read(out), engine.read(expected)))
