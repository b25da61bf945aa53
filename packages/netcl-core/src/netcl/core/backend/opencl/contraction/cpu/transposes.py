"""Transposition of blocks in registers, for the templates: macros, written for the lanes of a vector."""

from __future__ import annotations

__all__ = ["transposes_text"]


def transposes_text(lanes: int) -> str:
    """TURN_2, TURN_4 .. up to TURN_<lanes>, at least TURN_4: of so many rows of ``lanes`` elements, ``LOADED(i)``, the
    elements in order of columns, as many vectors, each passed to ``KEPT(i, vector)``.

    Each step interleaves the first half of the vectors with the second, which rotates the bits of an element's place by
    one (the perfect shuffle of Stone, 1971).
    """
    half = lanes // 2
    lines = []
    for name, first in (("LOW_HALVES", 0), ("HIGH_HALVES", half)):
        places = range(first, first + half)
        parts = ", ".join(f"(a).s{i:x}, (b).s{i:x}" for i in places)
        shuffled = ", ".join(f"{i}, {lanes + i}" for i in places)
        lines += [
            "#if defined(__clang__) && !defined(NO_SHUFFLES)",  # one instruction in place of one for each element
            f"#define {name}(a, b) __builtin_shufflevector(a, b, {shuffled})",
            "#else",
            f"#define {name}(a, b) (REALV)({parts})",
            "#endif",
        ]
    lines += [_macro(rows) for rows in (2, 4, 8, 16) if rows <= max(lanes, 4)]
    return "\n".join(lines) + "\n"


def _macro(rows: int) -> str:
    lines = [f"#define TURN_{rows}(LOADED, KEPT) {{"]
    lines.append("    const REALV " + ", ".join(f"x0_{i} = LOADED({i})" for i in range(rows)) + ";")
    steps = rows.bit_length() - 1
    for step in range(1, steps + 1):
        parts = []
        for i in range(rows // 2):
            pair = f"(x{step - 1}_{i}, x{step - 1}_{i + rows // 2})"
            parts += [f"x{step}_{2 * i} = LOW_HALVES{pair}", f"x{step}_{2 * i + 1} = HIGH_HALVES{pair}"]
        lines.append("    const REALV " + ", ".join(parts) + ";")
    lines.append("    " + " ".join(f"KEPT({i}, x{steps}_{i})" for i in range(rows)))
    return " \\\n".join([*lines, "}"])
