"""The table of matrix units: its fragments cover each element, and its rows name the devices that may have them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from netcl.core.device.capabilities import profile_of
from netcl.core.tuning import matrix_units
from netcl.core.tuning.unit_table import INSTRUCTIONS, KINDS, UNITS, Held, kind_of

DESCRIBED = [name for name, one in INSTRUCTIONS.items() if one.a is not None]


def places(held: Held, lanes: int) -> Counter[tuple[int, int]]:
    """Counts how often each place of a fragment is held, by the expressions of OpenCL C on integers of at least 0."""
    first, second = (compile(text.replace("/", "//"), "<a fragment>", "eval") for text in (held.first, held.second))
    return Counter(
        (eval(first, {"lane": lane, "e": e}), eval(second, {"lane": lane, "e": e}))
        for lane in range(lanes)
        for e in range(held.elements)
    )


@pytest.mark.parametrize("name", DESCRIBED)
def test_lanes_hold_each_element_of_a_fragment_equally_often(name: str) -> None:
    one = INSTRUCTIONS[name]
    (words,) = {
        KINDS[kind_of(unit.tiles[0].tile, unit.dtypes[0])].words for unit in UNITS.values() if unit.base == name
    }
    assert one.a is not None
    assert one.b is not None
    depth = one.k // words
    for held, rows, columns in ((one.a, one.m, depth), (one.b, one.n, depth), (one.sums, one.m, one.n)):
        found = places(held, one.lanes)
        assert set(found) == {(row, column) for row in range(rows) for column in range(columns)}
        assert len(set(found.values())) == 1
        # The twin takes an element from the first lanes that hold it.
        first = places(held, rows * columns // held.elements)
        assert set(first.values()) == {1}
        assert first.keys() == found.keys()


@pytest.mark.parametrize("name", ["mma", "wgmma"])
def test_a_warp_holds_each_sum_once(name: str) -> None:
    one = INSTRUCTIONS[name]
    assert places(one.sums, 32) == Counter((row, column) for row in range(one.m) for column in range(one.n))


def test_tiles_are_whole_fragments_and_whole_copies() -> None:
    for unit in UNITS.values():
        for tile, *_ in unit.tiles:
            one, items = INSTRUCTIONS[tile.base], INSTRUCTIONS[tile.base].lanes * tile.warps_m * tile.warps_n
            assert tile.m % (tile.warps_m * one.m) == tile.n % (tile.warps_n * one.n) == tile.k % one.k == 0, tile
            words = KINDS[kind_of(tile, unit.dtypes[0])].words
            for span in (tile.m, tile.n):
                copies = [(tile.k // 8, span)]
                if words == 1 or one.across:
                    copies.append((span * words // 8, tile.k // words))
                for chunks, rows in copies:
                    assert items % chunks == 0, tile
                    assert rows % (items // chunks) == 0, tile


def device(name: str, *extensions: str) -> Any:
    return replace(profile_of(None), name=name, extensions=frozenset(extensions), _device=object())


def test_units_that_did_not_run_here_are_tried_on_devices_that_may_have_them() -> None:
    intel = "cl_intel_subgroup_matrix_multiply_accumulate"
    xe = device("Intel(R) Arc(TM) B580 Graphics", intel, f"{intel}_tf32")
    assert matrix_units.candidates(xe) == ("dpas16", "dpas8")
    assert matrix_units.candidates(xe, "float32", "high") == ("dpas_tf32", "dpas16_2", "dpas8_2")
    assert matrix_units.candidates(xe, "float32", "medium") == ("dpas16_1", "dpas8_1")
    assert matrix_units.candidates(xe, "float32", "highest") == ()  # not known to be as exact
    assert matrix_units.candidates(device("gfx1100")) == ("wmma",)
    assert matrix_units.candidates(device("gfx1201")) == ("wmma_gfx12",)
    assert matrix_units.candidates(device("gfx90a:sramecc+:xnack-")) == ("mfma",)
    assert matrix_units.candidates(device("gfx942"), "float32") == ("mfma_f32",)
    assert matrix_units.candidates(device("gfx942"), "float32", "high") == ("mfma_2", "mfma_f32")
    assert matrix_units.candidates(device("Mali-G720", "cl_arm_matrix_multiply"), "float32") == ("arm",)
    for name in ("gfx1030", "gfx906", "AMD Radeon RX 7900 XTX (radeonsi, navi31, LLVM 19)"):
        assert matrix_units.candidates(device(name)) == ()
    assert not any(UNITS[name].ran for name in ("dpas16", "wmma", "wmma_gfx12", "mfma", "mfma_f32", "arm", "dpas_tf32"))
