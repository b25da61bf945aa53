"""Writes OpenCL C for single values: types, literals, loads, stores and casts, of scalars and of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from netcl.core.dtypes import c_type, compute_type, integer_range, is_floating, is_integer, itemsize
from netcl.core.expr.nodes import Apply, Const

PRAGMAS = {
    "contract": "#pragma OPENCL FP_CONTRACT OFF",
    "double": "#pragma OPENCL EXTENSION cl_khr_fp64 : enable",
}

# Attribute of kernels with explicit vector loops; without it Intel's compiler vectorises across work-items, too, and
# takes longer.
LOOPING = "__attribute__((vec_type_hint(float16)))"

# Before the loop over the remainder of whole vectors; without it a compiler vectorises the loop for nothing.
SHORT_LOOP = "#pragma clang loop vectorize(disable) interleave(disable) unroll(disable)"

# Before a loop that sums lanes of floats: Intel's compiler vectorises its steps, in another order.
ORDERED_LOOP = "#pragma clang loop vectorize(disable) interleave(disable)"

# A store past the caches, if the compiler has one: the line that it fills is not read first.
STREAM = """\
#ifdef __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
#define STREAM(value, place) __builtin_nontemporal_store(value, place)
#endif
#endif
#ifndef STREAM
#define STREAM(value, place) *(place) = (value)
#endif"""


def report(code: str, value: str, at: str, size: str, real: bool = False) -> str:
    """Returns the statement of a kernel that raises its queue's flag, int[8]: the first failed check writes its
    code, 1 if its value is the bits of a float, and three longs: the value, its position and a size.
    """
    number = f"as_int((float)({value}))" if real else value
    return (
        f"if (!atomic_cmpxchg(flag, 0, {code})) {{ __global long* what = (__global long*)flag; flag[1] = {int(real)}; "
        f"what[1] = {number}; what[2] = {at}; what[3] = {size}; }}"
    )


def lanes(type_name: str, width: int) -> str:
    """Returns the type of ``width`` lanes."""
    return type_name if width == 1 else f"{type_name}{width}"


def value_type(dtype: str, width: int = 1) -> str:
    """Returns the type that values of ``dtype`` are computed in; bool is an int, 1 or (in a vector) -1 for true."""
    return lanes(compute_type(dtype), width)


def literal(node: Const) -> str:
    """Returns a constant as OpenCL C."""
    value, kind = node.value, compute_type(node.dtype)
    if kind in ("uint", "ulong"):
        return f"{int(value)}{'u' if kind == 'uint' else 'UL'}"
    if kind in ("int", "long"):
        if kind == "long":
            return f"{int(value)}L" if int(value) > -(2**63) else "LONG_MIN"
        return str(int(value)) if int(value) > -(2**31) else "INT_MIN"
    number = float(value)
    if math.isnan(number):
        return "NAN"
    if math.isinf(number):
        return "INFINITY" if number > 0 else "(-INFINITY)"
    # repr of the rounded number is the shortest text that reads back as the same bits.
    text = repr(float(number)) if kind == "double" else repr(float(np.float32(number)))
    if kind == "float":
        text = str(np.float32(number))
        text = (text if any(c in text for c in ".e") else text + ".0") + "f"
    return f"({text})" if text.startswith("-") else text


def broadcast(text: str, dtype: str, width: int) -> str:
    """Returns a scalar value as a vector of equal lanes."""
    return f"({value_type(dtype, width)})({f'-({text})' if dtype == 'bool' else text})"


def packed(dtype: str, width: int) -> tuple[str, str]:
    """Returns the type of an unaligned vector of stored elements, and its declaration. PoCL computes vload8 and vstore8
    three times slower than a plain access through it.
    """
    plain = lanes(c_type(dtype), width)
    return f"{plain}_packed", f"typedef {plain} __attribute__((aligned({itemsize(dtype)}))) {plain}_packed;"


def load(pointer: str, offset: str, dtype: str, width: int, through: str = "") -> str:
    """Returns the value of the element, or of ``width`` neighbouring elements, at ``pointer + offset``; read as a
    vector of type ``through`` if that is not empty.
    """
    place = f"{pointer} + {offset}" if offset != "0" else pointer
    if dtype == "float16":
        return f"vload_half{'' if width == 1 else width}(0, {place})"
    if width == 1:
        raw = f"{pointer}[{offset}]"
    else:
        raw = f"*(__global const {through} *)({place})" if through else f"vload{width}(0, {place})"
    if dtype == "bfloat16":
        wide = f"(uint){raw}" if width == 1 else f"convert_uint{width}({raw})"
        return f"as_{lanes('float', width)}({wide} << 16)"
    if dtype == "bool":
        return f"({raw} != 0)" if width == 1 else f"(convert_int{width}({raw}) != 0)"
    if is_small(dtype):
        kind = compute_type(dtype)
        return f"({kind}){raw}" if width == 1 else f"convert_{kind}{width}({raw})"
    return raw


def store(
    pointer: str, offset: str, value: str, dtype: str, width: int, through: str = "", streams: bool = False
) -> str:
    """Returns the statement that writes ``value`` to ``pointer + offset``, rounded to nearest even in the half types;
    as a vector of type ``through`` if that is not empty, and past the caches (``STREAM``) if it ``streams``.
    """
    place = f"{pointer} + {offset}" if offset != "0" else pointer
    if dtype == "float16":
        return f"vstore_half{'' if width == 1 else width}_rte({value}, 0, {place});"
    if dtype == "bfloat16":
        value = f"to_bfloat16{'' if width == 1 else f'_{width}'}({value})"
    elif dtype == "bool":
        value = f"(uchar)({value} & 1)" if width == 1 else f"convert_uchar{width}({value} & 1)"
    elif is_small(dtype):
        kind = c_type(dtype)
        value = f"({kind})({value})" if width == 1 else f"convert_{kind}{width}({value})"
    if width == 1:
        return f"{pointer}[{offset}] = {value};"
    if streams:
        return f"STREAM({value}, (__global {lanes(c_type(dtype), width)} *)({place}));"
    if through:
        return f"*(__global {through} *)({place}) = {value};"
    return f"vstore{width}({value}, 0, {place});"


def convert(text: str, source: str, target: str, width: int) -> str:
    """Returns the value of dtype ``source`` as a value of dtype ``target``."""
    if target == "bool":
        return f"({text} != 0)"
    if source == "bool":
        text, source = f"({text} & 1)", "int32"
    have, want = compute_type(source), compute_type(target)
    if is_floating(source) and want in ("uint", "ulong"):
        return _unsigned_of_float(text, target, width)
    if have != want:
        text = _converted(text, have, want, width)
    return text if _holds(target, source) else wrapped(text, target)


def _unsigned_of_float(text: str, target: str, width: int) -> str:
    """Returns a float as an unsigned integer; below 0 it wraps, by long, as C leaves a direct conversion undefined."""
    if target == "uint64":
        return f"({text} < 0 ? (ulong)(long)({text}) : (ulong)({text}))"
    if width > 4:  # of four lanes each, for the reason given in _converted
        low, high = (_unsigned_of_float(f"({text}).{half}", "uint32", width // 2) for half in ("lo", "hi"))
        text = f"(uint{width})({low}, {high})"
    else:
        text = f"(uint)(long)({text})" if width == 1 else f"convert_uint{width}(convert_long{width}({text}))"
    return wrapped(text, target)


def _converted(text: str, have: str, want: str, width: int) -> str:
    """Returns a value of the type ``have`` converted to the type ``want``; more than four lanes of 8 bytes in halves.

    On a CPU with AVX-512 calls pass vectors of 64 bytes in another way than functions of PoCL's library expect them:
    the results are wrong numbers, or the kernel does not build.
    """
    if width == 1:
        return f"({want})({text})"
    if width > 4 and {have, want} & {"long", "ulong", "double"}:
        low, high = (_converted(f"({text}).{half}", have, want, width // 2) for half in ("lo", "hi"))
        return f"({want}{width})({low}, {high})"
    return f"convert_{want}{width}({text})"


def is_small(dtype: str) -> bool:
    """True for integers that are stored in fewer bits than they are computed in."""
    return is_integer(dtype) and c_type(dtype) != compute_type(dtype)


def _holds(target: str, source: str) -> bool:
    """True if ``target``, an integer dtype, holds all values of ``source``, or if no arithmetic limits them."""
    if not is_small(target):
        return True
    if not is_integer(source):
        return False
    low, high = integer_range(source)
    least, most = integer_range(target)
    return least <= low and high <= most


def wrapped(text: str, dtype: str) -> str:
    """Returns a value wrapped to the range of a small integer dtype: its low bits, in unsigned or signed arithmetic."""
    if not is_small(dtype):
        return text
    bits = 8 * itemsize(dtype)
    if dtype.startswith("u"):
        return f"({text} & {(1 << bits) - 1})"
    return f"(({text} << {32 - bits}) >> {32 - bits})"


def rounded(text: str, dtype: str, width: int) -> str:
    """Returns a float rounded to a number of the half type ``dtype``, to nearest even; ``text`` is a name. In float16,
    numbers below 2^-14 have a step of 2^-24, like floats from 0.5 to 1.
    """
    u, f = lanes("uint", width), lanes("float", width)
    if dtype == "bfloat16":
        bits = f"(as_{u}({text}) + 0x7fffu + ((as_{u}({text}) >> 16) & 1u)) & 0xffff0000u"
        return f"(({text} != {text}) ? {text} : as_{f}({bits}))"
    bits = f"(as_{u}(fabs({text})) + 0xfffu + ((as_{u}({text}) >> 13) & 1u)) & 0xffffe000u"
    small, large = f"fabs({text}) < 6.1035156e-05f", f"fabs({text}) >= 65520.0f"
    size = f"({small} ? (fabs({text}) + 0.5f) - 0.5f : {large} ? ({f})(INFINITY) : as_{f}({bits}))"
    return f"(({text} != {text}) ? {text} : copysign({size}, {text}))"


def applied(node: Apply, args: Sequence[str], width: int) -> str:
    """Returns a scalar operation applied to the texts of its arguments, each of ``width`` lanes. In a template,
    ``{unsigned}`` reinterprets the bits of the operation's integers as unsigned, ``{signed}`` as its own type, and
    ``{real}`` makes a float that is the same in all lanes.
    """
    if node.prim.name.startswith("to_"):
        return convert(args[0], node.args[0].dtype, node.dtype, width)
    if node.prim.name == "stored":
        return rounded(args[0], node.dtype, width)
    template, computed = node.prim.opencl, compute_type(node.args[0].dtype)
    if isinstance(template, dict):
        kind = "float" if is_floating(node.args[0].dtype) else "int"
        if "uint" in template and computed in ("uint", "ulong"):
            kind = "uint"
        template = template["double" if computed == "double" and "double" in template else kind]
    bits = {"signed": computed, "unsigned": f"u{computed.removeprefix('u')}"}
    casts = {name: f"({kind})" if width == 1 else f"as_{lanes(kind, width)}" for name, kind in bits.items()}
    text = template.format(*args, **casts, real=f"({lanes('float', width)})")
    return wrapped(f"({text})", node.dtype) if is_small(node.dtype) else text


def bfloat16_helper(width: int) -> str:
    """Returns the function that rounds floats to bfloat16 bits, to nearest even; NaN stays NaN."""
    name = "to_bfloat16" if width == 1 else f"to_bfloat16_{width}"
    u, us, f = lanes("uint", width), lanes("ushort", width), lanes("float", width)
    narrow = "(ushort)" if width == 1 else f"convert_{us}"
    return (
        f"{us} {name}({f} x) {{\n"
        f"  {u} bits = as_{u}(x);\n"
        f"  {u} rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;\n"
        f"  return {narrow}((x != x) ? ((bits >> 16) | 64u) : rounded);\n"
        f"}}"
    )


def identity(kind: str, dtype: str) -> str:
    """Returns the neutral element of a reduction."""
    if kind in ("sum", "prod"):
        number = "0" if kind == "sum" else "1"
        return number if not is_floating(dtype) else f"{number}.0f"
    if is_floating(dtype):
        return "(-INFINITY)" if kind == "max" else "INFINITY"
    low, high = _LIMITS[compute_type(dtype)]
    return low if kind == "max" else high


_LIMITS = {
    "int": ("INT_MIN", "INT_MAX"),
    "long": ("LONG_MIN", "LONG_MAX"),
    "uint": ("0", "UINT_MAX"),
    "ulong": ("0", "ULONG_MAX"),
}


def combine(kind: str, dtype: str, a: str, b: str) -> str:
    """Returns one step of a reduction; NaN wins in max and min."""
    if kind == "sum":
        return f"{a} + {b}"
    if kind == "prod":
        return f"{a} * {b}"
    better = f"({b} {'>' if kind == 'max' else '<'} {a})"
    if is_floating(dtype):
        better = f"({better} | ({b} != {b}))"
    return f"({better} ? {b} : {a})"


def exact_sum(dtype: str, width: int, total: str, error: str, addend: str) -> str:
    """Returns the statement that adds ``addend`` to ``total``, and the rounding error of the addition to ``error``
    (Knuth, The Art of Computer Programming, volume 2, 4.2.2, theorem B).
    """
    return (
        f"{{ {value_type(dtype, width)} sum = {total} + {addend}, part = sum - {total}; "
        f"{error} = {error} + (({total} - (sum - part)) + ({addend} - part)); {total} = sum; }}"
    )


def rounded_sum(total: str, error: str) -> str:
    """Returns a total with its error added; the error of an infinite total is NaN and left out."""
    return f"(({error} - {error} == 0.0f) ? {total} + {error} : {total})"
