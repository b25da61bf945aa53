"""Declares the built-in functions of OpenCL C that a text calls, in place of a driver's header of all of them.

PoCL 3.0 parses 18,500 lines of declarations twice for each program, which is nine tenths of its time for a small one.
``declared(source)`` is the text with the declarations it needs, to be built with ``WITHOUT_HEADER``; None if the text
calls a function that is not in this table. A function is declared with all its overloads (OpenCL C 1.2, 6.12): with
some of them alone another one would be taken in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from netcl.core.backend.opencl.queue.programs.in_line import NEEDS, in_line

WITHOUT_HEADER = "-D_OPENCL_H_"  # the include guard of Clang's opencl-c.h, and so of PoCL's

_WIDTHS = ("", "2", "3", "4", "8", "16")
_FLOATS = ("float", "double")
_SIGNED = ("char", "short", "int", "long")
_WHOLE = (*_SIGNED, "uchar", "ushort", "uint", "ulong")
_SAME_SIZE = {
    "float": "int", "double": "long",
    **{whole: whole.removeprefix("u") for whole in _WHOLE},
}  # fmt: skip
_SPACES = ("__global", "__local", "__constant", "__private")
_WRITABLE = tuple(space for space in _SPACES if space != "__constant")
_ROUNDINGS = ("", "_rte", "_rtz", "_rtp", "_rtn")

# Patterns of declarations by the names that have them. T stands for the types at the left, in all widths; S for their
# element, I and U for whole numbers of the same size, with and without sign. The second pattern, of vectors and a
# scalar, is not for scalars.
_Row = tuple[tuple[str, ...], str, str, str]
_ROWS: tuple[_Row, ...] = (
    (
        _FLOATS,
        "T NAME(T);",
        "",
        "acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 fabs floor lgamma log log10 log1p log2 "
        "rint round rsqrt sign sin sinh sqrt tan tanh trunc",
    ),
    (_FLOATS, "T NAME(T, T);", "", "atan2 copysign fmod hypot nextafter pow"),
    (_FLOATS, "T NAME(T, T);", "T NAME(T, S);", "fmax fmin"),
    (_FLOATS, "T NAME(T, T, T);", "", "fma mad"),
    ((*_FLOATS, *_WHOLE), "T NAME(T, T);", "T NAME(T, S);", "max min"),
    ((*_FLOATS, *_WHOLE), "T NAME(T, T, T);", "T NAME(T, S, S);", "clamp"),
    ((*_FLOATS, *_WHOLE), "T NAME(T, T, I); T NAME(T, T, U);", "", "select"),
    (_WHOLE, "T NAME(T, T);", "", "mul_hi"),
    (_WHOLE, "T NAME(T);", "", "popcount"),
    (_WHOLE, "U NAME(T);", "", "abs"),
    (_SIGNED, "int NAME(T);", "", "all any"),
)
_ITEM = "get_global_id get_global_size get_group_id get_local_id get_local_size get_num_groups get_global_offset"
# Each with the number of values that it takes.
_ATOMIC = {"atomic_inc": 0, "atomic_add": 1, "atomic_max": 1, "atomic_min": 1, "atomic_cmpxchg": 2}


def _of(types: tuple[str, ...], pattern: str, mixed: str) -> Iterator[str]:
    for scalar in types:
        signed = _SAME_SIZE[scalar]
        for width in _WIDTHS:
            for text in (pattern, mixed if width else ""):
                for letter, kind in (
                    ("T", scalar + width),
                    ("I", signed + width),
                    ("U", f"u{signed}{width}"),
                    ("S", scalar),
                ):
                    text = re.sub(rf"\b{letter}\b", kind, text)
                for declaration in text.split(";")[:-1]:
                    yield f"__attribute__((overloadable, const)) {declaration.strip()};"


def _predicate(name: str) -> Iterator[str]:
    for scalar in _FLOATS:
        for width in _WIDTHS:
            result = "int" if not width else _SAME_SIZE[scalar] + width
            yield f"__attribute__((overloadable, const)) {result} {name}({scalar}{width});"


def _atomic(name: str) -> Iterator[str]:
    for kind in ("int", "uint"):
        for space in ("__global", "__local"):
            yield f"__attribute__((overloadable)) {kind} {name}(volatile {space} {kind}*{f', {kind}' * _ATOMIC[name]});"


def _access(width: str) -> Iterator[tuple[str, str]]:
    """Yields the loads and stores of vectors, and of halves in vectors and alone."""
    pure = "__attribute__((overloadable, pure))"
    for scalar in (*_FLOATS, *_WHOLE) if width else ():
        vector = scalar + width
        for space in _SPACES:
            yield "vload" + width, f"{pure} {vector} vload{width}(size_t, const {space} {scalar}*);"
        for space in _WRITABLE:
            yield (
                "vstore" + width,
                f"__attribute__((overloadable)) void vstore{width}({vector}, size_t, {space} {scalar}*);",
            )
    for space in _SPACES:
        yield "vload_half" + width, f"{pure} float{width} vload_half{width}(size_t, const {space} half*);"
    for scalar in _FLOATS:
        for space in _WRITABLE:
            for rounding in _ROUNDINGS:
                name = f"vstore_half{width}{rounding}"
                yield name, f"__attribute__((overloadable)) void {name}({scalar}{width}, size_t, {space} half*);"


@lru_cache(maxsize=1)
def declarations() -> dict[str, tuple[str, ...]]:
    """Returns by name the declarations of all overloads."""
    by_name: dict[str, list[str]] = {}
    for types, pattern, mixed, names in _ROWS:
        for name in names.split():
            by_name[name] = list(_of(types, pattern.replace("NAME", name), mixed.replace("NAME", name)))
    for name in _ITEM.split():
        by_name[name] = [f"__attribute__((overloadable, const)) size_t {name}(uint);"]
    for name in ("isfinite", "isinf", "isnan"):
        by_name[name] = list(_predicate(name))
    for name in _ATOMIC:
        by_name[name] = list(_atomic(name))
    for width in _WIDTHS:
        for name, text in _access(width):
            by_name.setdefault(name, []).append(text)
        for result in (*_FLOATS, *_WHOLE):
            name = f"convert_{result}{width}"
            saturated = [f"{name}_sat_rte"] if result in ("char", "short") else []
            for conversion in (name, *saturated):
                by_name[conversion] = [
                    f"__attribute__((overloadable, const)) {result}{width} {conversion}({scalar}{width});"
                    for scalar in (*_FLOATS, *_WHOLE)
                ]
    by_name["barrier"] = ["__attribute__((overloadable, convergent)) void barrier(cl_mem_fence_flags);"]
    return {name: tuple(texts) for name, texts in by_name.items()}


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|#pragma[^\n]*", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(")
_MACRO = re.compile(r"#define\s+(\w+)(?:\(([\w, ]*)\))?")  # its name and parameters
_FUNCTION = re.compile(r"\b(?!return|else|do\b)\w+\*?\s+(\w+)\s*\(")  # a type before a name
_BY_MACRO = re.compile(r"^[A-Z_]+\(([\w, ]*)\)", re.MULTILINE)  # writes the function that is among its arguments
_OF_THE_LANGUAGE = frozenset(
    ["_Pragma", "__attribute__", "defined", "else", "for", "if", "return", "sizeof", "switch", "while"]
)
_TYPES = r"(?:float|double|half|u?(?:char|short|int|long))(?:2|3|4|8|16)?"
_ATTRIBUTES = "vec_type_hint|reqd_work_group_size|ext_vector_type|aligned"
_CAST = re.compile(rf"as_{_TYPES}|{_TYPES}|__builtin_\w+|{_ATTRIBUTES}|\w*_packed")


def unknown(source: str) -> set[str]:
    """Returns the called functions of the text that neither it nor the table defines."""
    text = _COMMENT.sub("", source)
    macros = _MACRO.findall(text)
    defined = {name for name, _ in macros} | {*_FUNCTION.findall(text)}
    defined.update(*map(_NAME.findall, [*(parameters for _, parameters in macros), *_BY_MACRO.findall(text)]))
    called = set(_CALL.findall(text)) - defined - _OF_THE_LANGUAGE - declarations().keys()
    return {name for name in called if not _CAST.fullmatch(name)}


def declared(source: str, defined: bool = False) -> str | None:
    """Returns the text with declarations before it, None if the driver's own header is needed; with ``defined`` the
    functions of ``in_line`` are defined, for a processor that multiplies and adds in one instruction.
    """
    if unknown(source):
        return None
    words = set(_NAME.findall(source))
    # A number of lanes may be joined to a name by a macro.
    used = [name for name in declarations() if name in words or name.rstrip("0123456789") in words]
    if defined:
        used = [*dict.fromkeys(needed for name in used for needed in (*NEEDS.get(name, ()), name))]
    texts = [text for name in used for text in declarations()[name]]
    return "\n".join([*(map(in_line, texts) if defined else texts), source])
