"""Access to elements of one dtype, for the templates: its macros, written by the code that writes generated kernels."""

from __future__ import annotations

from netcl.core.dtypes import c_type, itemsize
from netcl.core.expr import c_types as c

__all__ = ["gathered_text", "storage_text"]

_WIDENED = ("float16", "bfloat16")  # are computed in float


def storage_text(dtype: str, vector: int = 1) -> str:
    """STORAGE, the type in memory, REAL, the type of arithmetic, and LOAD and STORE, which convert between them.

    With ``vector`` lanes also REALV, a vector of REAL, and PACKED, one at the address of any element; VLOAD(p) and
    VSTORE(x, p) convert vectors of storage in global memory, GLOAD and GSTORE access vectors of REAL there, RLOAD and
    RSTORE vectors of REAL in any memory.
    """
    kept, real = c_type(dtype), "float" if dtype in _WIDENED else c_type(dtype)
    lines = [c.PRAGMAS["double"]] if dtype == "float64" else []
    if dtype == "bfloat16":
        lines.append(c.bfloat16_helper(1))
    lines += ["#define JOIN_(a, b) a##b", "#define JOIN(a, b) JOIN_(a, b)"]
    lines += [f"#define STORAGE {kept}", f"#define REAL {real}", *_scalars(dtype)]
    if vector > 1:
        lines += _vectors(dtype, real, vector)
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


def gathered_text(dtype: str, lanes: int) -> str:
    """Access to elements that are gathered or scattered one by one and converted together, after ``storage_text``.

    RAW is the type that RAW_LOAD(p, i) and RAW_STORE(x, p, i) access, RAWV a vector of it: WIDEN makes a vector REALV
    of that, NARROW does the reverse.
    """
    real = "float" if dtype in _WIDENED else c_type(dtype)
    raw, widen, narrow, load, store = real, "(v)", "(x)", "LOAD((p), (i))", "STORE((x), (p), (i))"
    if dtype == "bfloat16":
        raw, load, store = "ushort", "((p)[i])", "((p)[i] = (x))"
        widen, narrow = f"as_float{lanes}(convert_uint{lanes}(v) << 16)", f"to_bfloat16_{lanes}(x)"
    lines = [
        f"#define RAW {raw}",
        f"#define RAWV {raw}{lanes}",
        f"#define WIDEN(v) {widen}",
        f"#define NARROW(x) {narrow}",
        f"#define RAW_LOAD(p, i) {load}",
        f"#define RAW_STORE(x, p, i) {store}",
    ]
    return "\n".join(lines) + "\n"
