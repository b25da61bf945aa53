"""Transposition of blocks in registers, for the templates: macros, written for the lanes of a vector."""

from __future__ import annotations


def transposes_text(lanes: int) -> str:
    """Returns the macros TURN_2, TURN_4 .. up to TURN_<lanes>, at least TURN_4: of so many rows of ``lanes`` elements,
    ``LOADED(i)``, the elements in order of columns, as many vectors, each passed to ``KEPT(i, vector)``.

    Each step interleaves the first half of the vectors with the second, which rotates the bits of an element's place by
    one (the perfect shuffle of Stone, 1971).
    """
    half = lanes // 2
    lines = []
    for name, first in (("LOW_HALVES", 0), ("HIGH_HALVES", half)):
        places = range(first, first + half)
        parts = ", ".join(f"(a).s{i:x}, (b).s{i:x}" for i in places)
        shuffled = ", ".join(f"{i}, {lanes + i}" for i in places)
        lines += _either(name, parts, shuffled)
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


def windows_text(lanes: int, width: int, columns: int) -> str:
    """Returns the macros TOGETHER and EACH_COLUMN for ``lanes`` rows of ``width`` elements, powers of two, in ``width``
    vectors: a vector has MANY rows or one of the PARTS of a row, TAKEN elements of each.

    TOGETHER(type, ROW): the vector of ROW(0), ROW(1) ...; COLUMN_NUMBERS: the numbers of its columns.
    EACH_COLUMN(GIVEN, KEPT): of the vectors GIVEN(v), in the order of rows, the first ``columns`` columns, each passed
    to ``KEPT(j, vector)``. Each step separates the even elements of pairs of vectors from the odd ones.
    """
    taken = min(lanes, width)
    many, parts = lanes // taken, width // taken
    elements = [f"(ROW({m})).s{i:x}" for m in range(many) for i in range(taken)]
    lines = [
        f"#define WIDTH {width}",
        f"#define TAKEN {taken}",
        f"#define MANY {many}",
        f"#define PARTS {parts}",
        "#ifndef NO_SHUFFLES",
        f"#define TOGETHER(type, ROW) (type)({', '.join(f'ROW({m})' for m in range(many))})",
        "#else",
        f"#define TOGETHER(type, ROW) (type)({', '.join(elements if many > 1 else ['ROW(0)'])})",
        "#endif",
        f"#define COLUMN_NUMBERS {', '.join(str(lane % taken) for lane in range(lanes))}",
    ]
    for name, first in (("EVEN", 0), ("ODD", 1)):
        picked = ", ".join(f"({of}).s{i:x}" for of in "ab" for i in range(first, lanes, 2))
        shuffled = ", ".join(str(i) for i in range(first, 2 * lanes, 2))
        lines += _either(name, picked, shuffled)
    body = ["#define EACH_COLUMN(GIVEN, KEPT) {"]
    for part in range(parts):
        body += [f"    {line}" for line in _columns(part, parts, taken, columns - part * taken)]
    return "\n".join(lines) + "\n" + " \\\n".join([*body, "}"]) + "\n"


def _columns(part: int, parts: int, taken: int, columns: int) -> list[str]:
    """Returns the steps for one of the parts of each row."""
    declared = ", ".join(f"p{part}_0_{v}_0 = GIVEN({v * parts + part})" for v in range(taken))
    lines, vectors, count, step = [f"const REALV {declared};"], taken, 1, 0
    while vectors > 1:
        vectors //= 2
        pair = f"(p{part}_{step}_{{}}_{{}}, p{part}_{step}_{{}}_{{}})"
        halves = [
            f"p{part}_{step + 1}_{u}_{c + count * odd} = {name}{pair.format(2 * u, c, 2 * u + 1, c)}"
            for u in range(vectors)
            for c in range(count)
            for odd, name in enumerate(("EVEN", "ODD"))
            if c + count * odd < columns
        ]
        lines.append(f"const REALV {', '.join(halves)};")
        count, step = count * 2, step + 1
    return [*lines, " ".join(f"KEPT({part * taken + j}, p{part}_{step}_0_{j})" for j in range(min(taken, columns)))]


def _either(name: str, picked: str, shuffled: str) -> list[str]:
    """Returns the macro ``name(a, b)``, a vector of elements of two vectors."""
    return [
        "#if defined(__clang__) && !defined(NO_SHUFFLES)",  # one instruction in place of one for each element
        f"#define {name}(a, b) __builtin_shufflevector(a, b, {shuffled})",
        "#else",
        f"#define {name}(a, b) (REALV)({picked})",
        "#endif",
    ]
