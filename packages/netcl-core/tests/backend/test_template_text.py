"""The language of the templates: parts, sections and repeated lines, and kernels that declare their arguments."""

from __future__ import annotations

import re

import pytest

from netcl.core.backend.opencl.template_text import expanded, filled
from netcl.core.expr.kernel_source import Argument, Role


def _lines(text: str, parts: dict[str, str] | None = None, **known: object) -> list[str]:
    return expanded(text, known, parts or {}).splitlines()


def test_parts_have_the_indentation_of_their_line() -> None:
    assert filled("  ${a}\n${none}\nx = ${b};", {"a": "1\n2", "none": "", "b": "3"}) == "  1\n  2\nx = 3;"


def test_a_part_that_is_missing_is_named() -> None:
    with pytest.raises(KeyError, match="expected a part 'b' .* got a"):
        expanded("${b}", {}, {"a": ""})


@pytest.mark.parametrize(
    ("known", "chosen"),
    [({"A": 1}, "a"), ({"A": 0}, "b"), ({}, "b"), ({"A": 1, "B": 1}, "b"), ({"C": 1}, "a")],
)
def test_sections_are_chosen_by_definitions(known: dict[str, object], chosen: str) -> None:
    assert _lines("$if A and not B or C\na\n$else\nb\n$end\nc", **known) == [chosen, "c"]


def test_a_section_within_one_that_is_left_out_is_left_out() -> None:
    assert _lines("$if A\n$if B\na\n$else\nb\n$end\n$end\nc") == ["c"]


def test_lines_are_repeated_with_numbers() -> None:
    text = "$for i < ROWS\n$for j < WIDE\nc${i}_${j}\n$end\nd${i}\n$end"
    assert _lines(text, ROWS=2, WIDE=1) == ["c0_0", "d0", "c1_0", "d1"]
    assert _lines(f"{text}\ne", ROWS=0, WIDE=1) == ["e"]


def test_a_kernel_declares_its_arguments() -> None:
    text = """\
$kernel LOOPS [GROUP, 1, 1] NAME(read float x, write uint* counts, local REAL work,
        sizes g if SIZED, long n if not SIZED${more}) {
"""
    made = expanded(text, {"NAME": "sums", "SIZED": 1}, {"more": ", read float e1"})
    assert made.kernels == {
        "sums": (
            Argument(Role.READ, "float", "x", alone=True),
            Argument(Role.WRITE, "uint", "counts"),
            Argument(Role.LOCAL, "REAL", "work"),
            Argument(Role.SCALAR, "sizes", "g"),
            Argument(Role.READ, "float", "e1", alone=True),
        )
    }
    assert re.sub(r"\s+", " ", made).strip() == " ".join(
        [
            "__kernel LOOPS __attribute__((reqd_work_group_size(GROUP, 1, 1))) void NAME(",
            "__global const float *restrict x, __global uint *counts, __local REAL *work,",
            "const sizes g, __global const float *restrict e1) {",
        ]
    )
