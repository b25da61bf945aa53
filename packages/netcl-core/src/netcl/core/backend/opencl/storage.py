"""Writes the macros of templates for access to elements of one dtype.

A contraction in a half type may read operands, and write a result, that are stored in float32: each element is then
rounded to the half type when it is loaded or stored, in place of casts in separate launches. Such an operand is an
``InFloat32``, with a dtype such as ``bfloat16_in_float32``.
"""

from __future__ import annotations

from typing import Any

from netcl.core.dtypes import c_type, itemsize
from netcl.core.expr import c_types as c

_WIDENED = ("float16", "bfloat16")  # are computed in float
_SUFFIX = "_in_float32"
_ROLES = ("A", "B", "OUT")  # of the operands of a contraction


class InFloat32:
    """The float32 tensor ``tensor`` as an operand in a half type."""

    def __init__(self, tensor: Any, dtype: str) -> None:
        self.tensor = tensor
        self.dtype = dtype + _SUFFIX

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tensor, name)


def in_float32(x: Any, dtype: str) -> Any:
    """Returns ``x`` as an operand of a contraction in the half type ``dtype``: wrapped if it is stored in float32."""
    return InFloat32(x, dtype) if x.dtype == "float32" else x


def value_dtype(dtype: str) -> str:
    """Returns the dtype of the numbers in a tensor: the half type if it is an ``InFloat32``."""
    return dtype.removesuffix(_SUFFIX)


def stored_dtype(dtype: str) -> str:
    """Returns the dtype of the elements in memory: float32 if it is of an ``InFloat32``."""
    return "float32" if dtype.endswith(_SUFFIX) else dtype


def storage_text(dtype: str, vector: int = 1) -> str:
    """Returns the macros STORAGE (the type in memory), REAL (the type of arithmetic), and LOAD and STORE, which convert
    between them.

    With ``vector`` lanes also REALV, a vector of REAL, and PACKED, one at the address of any element; VLOAD(p) and
    VSTORE(x, p) convert vectors of storage in global memory, GLOAD and GSTORE access vectors of REAL there, RLOAD and
    RSTORE vectors of REAL in any memory.
    """
    if dtype.endswith(_SUFFIX):
        return _in_float32_text(value_dtype(dtype), vector)
    kept, real = c_type(dtype), "float" if dtype in _WIDENED else c_type(dtype)
    lines = [c.PRAGMAS["double"]] if dtype == "float64" else []
    if dtype == "bfloat16":
        lines.append(c.bfloat16_helper(1))
    lines += ["#define JOIN_(a, b) a##b", "#define JOIN(a, b) JOIN_(a, b)"]
    lines += [f"#define STORAGE {kept}", f"#define REAL {real}", *_scalars(dtype)]
    if vector > 1:
        lines += _vectors(dtype, real, vector)
    return "\n".join(lines) + "\n"


def narrowing(dtype: str) -> str:
    """Returns the function ``narrowed_bits``: the bits of a float that is rounded to the half type ``dtype``."""
    if dtype == "float16":
        statements = "ushort v; vstore_half_rte(x, 0, (half*)&v); return v;"
        return f"static inline ushort narrowed_bits(const float x) {{ {statements} }}"
    return f"{c.bfloat16_helper(1)}\nstatic inline ushort narrowed_bits(const float x) {{ return to_bfloat16(x); }}"


def _rounding_text(dtype: str, vector: int) -> list[str]:
    """Returns the functions ``rounded`` and ``rounded_vector``, which round floats to the half type ``dtype``."""
    if dtype == "float16":
        statements = "ushort v; vstore_half_rte(x, 0, (half*)&v); return vload_half(0, (const half*)&v);"
        functions = [f"static inline float rounded(const float x) {{ {statements} }}"]
        if vector > 1:
            functions += _conversions_of_halves(vector)
            kind = f"float{vector}"
            functions.append(f"static inline {kind} rounded_vector(const {kind} x) {{ return widened(narrowed(x)); }}")
        return functions
    functions = []
    for name, lanes in (("rounded", 1), *((("rounded_vector", vector),) if vector > 1 else ())):
        kind = c.lanes("float", lanes)
        functions.append(f"static inline {kind} {name}(const {kind} x) {{ return {c.rounded('x', dtype, lanes)}; }}")
    return functions


def _in_float32_text(dtype: str, vector: int) -> str:
    lines = ["#define LOAD(p, i) rounded((p)[i])", "#define STORE(x, p, i) ((p)[i] = rounded(x))"]
    if vector > 1:
        lines += ["#define VLOAD(p) rounded_vector(GLOAD(p))", "#define VSTORE(x, p) GSTORE(rounded_vector(x), (p))"]
        lines.append("#define ROUNDED_LATER")
    replaced = ("#define LOAD(", "#define STORE(", "#define VLOAD(", "#define VSTORE(")
    plain = [line for line in storage_text("float32", vector).splitlines() if not line.startswith(replaced)]
    return "\n".join([*plain, *_rounding_text(dtype, vector), *lines]) + "\n"


def roles_text(dtype: str, vector: int) -> str:
    """Returns the macros of the operands A, B and OUT of contractions, after ``storage_text``: A_STORAGE, A_LOAD and so
    on. With A_IN_FLOAT32 and so on the operand has numbers of the half type ``dtype`` in float32; with B_WIDENED they
    are rounded already.
    """
    half = dtype in _WIDENED
    lines = []
    if half:
        lines += ["#if defined(A_IN_FLOAT32) || defined(B_IN_FLOAT32) || defined(OUT_IN_FLOAT32)"]
        lines += [*_rounding_text(dtype, vector), "#endif"]
    for role in _ROLES:
        if half:
            lines += [
                f"#ifdef {role}_IN_FLOAT32",
                f"#define {role}_STORAGE float",
                f"#define {role}_LOAD(p, i) rounded((p)[i])",
                f"#define {role}_VLOAD(p) rounded_vector(GLOAD(p))",
                f"#define {role}_STORE(x, p, i) ((p)[i] = rounded(x))",
                f"#define {role}_VSTORE(x, p) GSTORE(rounded_vector(x), (p))",
                f"#elif defined({role}_WIDENED)",
                f"#define {role}_STORAGE float",
                f"#define {role}_LOAD(p, i) ((p)[i])",
                f"#define {role}_VLOAD(p) GLOAD(p)",
                "#else",
            ]
        lines += [
            f"#define {role}_STORAGE STORAGE",
            f"#define {role}_LOAD(p, i) LOAD(p, i)",
            f"#define {role}_VLOAD(p) VLOAD(p)",
            f"#define {role}_STORE(x, p, i) STORE(x, p, i)",
            f"#define {role}_VSTORE(x, p) VSTORE(x, p)",
        ]
        if half:
            lines.append("#endif")
    return "\n".join(lines) + "\n"


def _scalars(dtype: str) -> list[str]:
    if dtype == "float16":
        load, store = "vload_half((i), (p))", "vstore_half((x), (i), (p))"
    elif dtype == "bfloat16":
        load, store = c.load("(p)", "i", dtype, 1), "((p)[i] = to_bfloat16(x))"
    else:
        load, store = "((p)[i])", "((p)[i] = (x))"
    return [f"#define LOAD(p, i) {load}", f"#define STORE(x, p, i) {store}"]


def _vectors(dtype: str, real: str, lanes: int) -> list[str]:
    # Plain accesses through a vector that may be at any address: PoCL's vload8 and vstore8 take three times as long.
    size = 4 if dtype in _WIDENED else itemsize(dtype)
    lines = [
        f"#define REALV {real}{lanes}",
        f"typedef {real}{lanes} __attribute__((aligned({size}))) PACKED;",
        "#define GLOAD(p) (*(__global const PACKED*)(p))",
        "#define GSTORE(x, p) (*(__global PACKED*)(p) = (x))",
        f"#define RLOAD(p) vload{lanes}(0, (p))",
        f"#define RSTORE(x, p) vstore{lanes}((x), 0, (p))",
    ]
    if dtype == "float16":
        load, store = f"vload_half{lanes}(0, (p))", f"vstore_half{lanes}((x), 0, (p))"
    elif dtype == "bfloat16":
        lines += [c.bfloat16_helper(lanes), f"typedef ushort{lanes} __attribute__((aligned(2))) PACKED_STORAGE;"]
        load = f"as_float{lanes}(convert_uint{lanes}(*(__global const PACKED_STORAGE*)(p)) << 16)"
        store = f"(*(__global PACKED_STORAGE*)(p) = to_bfloat16_{lanes}(x))"
    else:
        load, store = "GLOAD(p)", "GSTORE((x), (p))"
    return [*lines, f"#define VLOAD(p) {load}", f"#define VSTORE(x, p) {store}"]


def _conversions_of_halves(lanes: int) -> list[str]:
    """Returns the functions ``widened`` and ``narrowed``, which convert through memory: without cl_khr_fp16 there are
    no values of the type. They do not use vload_half8, which ``device.drivers.half_vectors`` replaces by a macro for
    global memory.
    """
    part = 4 if lanes == 8 else lanes
    loads = ", ".join(f"vload_half{part}({position}, (const half*)&v)" for position in range(lanes // part))
    halves = ("x",) if part == lanes else ("x.lo", "x.hi")
    stores = " ".join(f"vstore_half{part}_rte({x}, {position}, (half*)&v);" for position, x in enumerate(halves))
    return [
        f"static inline float{lanes} widened(const ushort{lanes} v) {{ return (float{lanes})({loads}); }}",
        f"static inline ushort{lanes} narrowed(const float{lanes} x) {{ ushort{lanes} v; {stores} return v; }}",
    ]


def gathered_text(dtype: str, lanes: int) -> str:
    """Returns the macros for elements that are gathered or scattered one by one and converted together, after
    ``storage_text``.

    RAW is the type that RAW_LOAD(p, i) and RAW_STORE(x, p, i) access, RAWV a vector of it: WIDEN makes a vector REALV
    of that, NARROW does the reverse. GATHER(p, from) is the vector of the elements at p[from[0]], p[from[1]], ...
    """
    real = c_type("float32" if dtype.endswith(_SUFFIX) or dtype in _WIDENED else dtype)
    raw, widen, narrow, load, store = real, "(v)", "(x)", "((p)[i])", "((p)[i] = (x))"
    lines = []
    if dtype.endswith(_SUFFIX):
        widen, narrow = "rounded_vector(v)", "rounded_vector(x)"
    elif dtype == "bfloat16":
        raw, widen, narrow = "ushort", f"as_float{lanes}(convert_uint{lanes}(v) << 16)", f"to_bfloat16_{lanes}(x)"
    elif dtype == "float16":
        raw, widen, narrow = "ushort", "widened(v)", "narrowed(x)"
        load, store = "(((__global const ushort*)(p))[i])", "(((__global ushort*)(p))[i] = (x))"
        lines += _conversions_of_halves(lanes)
    gathered = ", ".join(f"RAW_LOAD(p, (from)[{lane}])" for lane in range(lanes))
    lines += [
        f"#define RAW {raw}",
        f"#define RAWV {raw}{lanes}",
        f"#define WIDEN(v) {widen}",
        f"#define NARROW(x) {narrow}",
        f"#define RAW_LOAD(p, i) {load}",
        f"#define RAW_STORE(x, p, i) {store}",
        f"#define GATHER(p, from) WIDEN((RAWV)({gathered}))",
    ]
    return "\n".join(lines) + "\n"
