"""The states of running combinations in OpenCL C, for scan.cl: their members, how they are combined, and their results.

A state is the combination of a stretch of elements: a sum or product with its rounding errors (so that only the last
rounding counts), an extremum with its index, the shift and the sum of a log-sum-exp, or the factor and the offset of
y = a y + b.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from netcl.core.backend.opencl.templates import filled_program
from netcl.core.dtypes import is_floating, itemsize


@dataclass(frozen=True)
class _State:
    """``append`` combines the state (a, b) of a stretch with the state (c, d) of the next stretch, in scalars, since
    compilers keep a struct in memory from one step to the next. ``first`` and ``second_of`` are the state of the
    element at position p, the i-th of the scan; ``result`` is the value of a state.
    """

    append: str
    result: str
    second: str = "REAL"  # the type of b
    first: str = "LOAD(x, p)"
    second_of: str = "0"


def _extremum(comparison: str) -> _State:
    """Returns the last of equal values; a NaN stays, with the index of the last NaN."""
    append = f"""\
{{
    const REAL later_value = c;
    const int later = ((later_value) != (later_value) || ((a) == (a) && (later_value) {comparison} (a)));
    a = later ? later_value : a;
    b = later ? d : b;
}}"""
    return _State(append, "(a)", second="long", second_of="(i)")


_ROUNDED = "((b) - (b) == 0 ? (a) + (b) : (a))"  # the rounding error of an infinity or NaN is NaN

_EXACT = {"sum": _State("a += c;", "(a)"), "prod": _State("a *= c;", "(a)")}

_STATES = {
    "max": _extremum(">="),
    "min": _extremum("<="),
    # Knuth's TwoSum.
    "sum": _State(
        """\
{
    const REAL next = c, sum = a + next, part = sum - a;
    b += d + ((a - (sum - part)) + (next - part));
    a = sum;
}""",
        _ROUNDED,
    ),
    "prod": _State(
        """\
{
    const REAL next = c, product = a * next;
    b = b * next + (a * d + fma(a, next, -product));
    a = product;
}""",
        _ROUNDED,
    ),
    # Equal shifts have the factor 1: the difference of infinities is NaN.
    "logsumexp": _State(
        """\
{
    const REAL next = c, shift = a > next || a != a ? a : next;
    b = b * (a == shift ? (REAL)1 : exp(a - shift)) + d * (next == shift ? (REAL)1 : exp(next - shift));
    a = shift;
}""",
        "((a) + log(b))",
        second_of="1",
    ),
    # Zero times a factor that has overflowed is zero.
    "linear": _State(
        """\
{
    const REAL next = c;
    b = (b == 0 ? (REAL)0 : next * b) + d;
    a *= next;
}""",
        "(b)",
        first="LOAD(factors, p)",
        second_of="LOAD(x, p)",
    ),
}


@lru_cache(maxsize=256)
def scan_program(kind: str, dtype: str, *names: str, **numbers: int) -> str:
    """Returns the text of a program of the templates ``names``, with ``numbers`` defined."""
    dtype = "uint8" if dtype == "bool" else dtype
    defines = ((f"DTYPE_{dtype.upper()}", 1), *numbers.items())
    return filled_program(("storage", "scan_walk", *names), defines, _parts(kind, exact=not is_floating(dtype)))


def state_words(kind: str, dtype: str) -> int:
    """Returns the 32-bit words of a state: two numbers, at most as wide as an index."""
    return 4 if kind in ("max", "min") else 2 * max(itemsize(dtype), 4) // 4


def _parts(kind: str, exact: bool) -> dict[str, str]:
    """Returns the parts of scan.cl and scan_rows.cl for a scan of ``kind``; ``exact``: of integers."""
    state = _EXACT[kind] if exact and kind in _EXACT else _STATES[kind]
    operands = ["x", "factors"] if kind == "linear" else ["x"]
    extremum = kind in ("max", "min")
    macros = {
        "SECOND": state.second,
        "FIRST(p)": state.first,
        "SECOND_OF(p, i)": state.second_of,
        "APPEND(a, b, c, d)": state.append,
        "RESULT(a, b)": state.result,
        "EMIT(a, b, p)": "STORE(RESULT(a, b), out, p)" + ", indices[p] = b" * extremum,
    }
    return {
        "state": "\n".join(f"#define {name} {text}".replace("\n", " \\\n") for name, text in macros.items()),
        "operands": ", ".join(f"read STORAGE {name}" for name in operands),
        "indices": "write long indices, " * extremum,
        "places": "__local uint places[GROUP * (STRETCH + 1)];" * extremum,
        "place": "places[STAGE(i)] = b;" * extremum,
        "index_of_place": "indices[PLACE(i)] = places[STAGE(i)];" * extremum,
    }
