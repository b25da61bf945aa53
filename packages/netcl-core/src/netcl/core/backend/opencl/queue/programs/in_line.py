"""Defines in OpenCL C the functions of floats that PoCL 3.0 calls out of line or computes slowly.

PoCL 3.0 calls even ``fabs`` and ``fma`` of vectors, which costs more than what they do: seven ``fma`` one after another
take 0.77 ms for 2^20 floats in vectors of eight, and 0.10 ms in line. ``fabs``, ``copysign``, ``fmax``, ``fmin``,
``max``, ``min`` and ``fma`` have the results of PoCL's own in every bit. The elementary functions are polynomials in
``fma``, fitted to the least largest error with coefficients of 24 bits, after a reduction to a small range: within 1.1
units in the last place for ``exp`` and 1.6 for the others (``tests/backend/queue/programs/test_in_line.py``).
"""

from __future__ import annotations

import re

# Bodies of functions of a, b and c; T stands for a type of floats, I for the ints of the same width. Each is compiled
# with contraction, so that ``a * b + c`` is one instruction.
_BODIES = {
    "fabs": "return as_T(as_I(a) & (I)(0x7fffffff));",
    "copysign": "return as_T((as_I(a) & (I)(0x7fffffff)) | (as_I(b) & (I)(0x80000000)));",
    "fmax": "return ((b != b) | (a > b)) ? a : b;",
    "fmin": "return ((b != b) | (a < b)) ? a : b;",
    "max": "return a > b ? a : b;",
    "min": "return a < b ? a : b;",
    "fma": "return a * b + c;",
    # exp(a) = 2^n exp(r), |r| <= log(2) / 2; adding 1.5 2^23 rounds to n, and leaves it in the low bits.
    "exp": """
        T x = a > 89.0f ? (T)(89.0f) : a;
        x = x < -104.0f ? (T)(-104.0f) : x;
        POWER
        I half_n = n >> 1;
        p = p * r + 1.0f;
        p = p * r + 1.0f;
        return p * as_T((half_n + 127) << 23) * as_T((n - half_n + 127) << 23);""",
    # 2^n (expm1(r) + 1) - 1, by halves, since 2^128 is no float.
    "expm1": """
        T x = a > 89.0f ? (T)(89.0f) : a;
        x = x < -18.0f ? (T)(-18.0f) : x;
        POWER
        p = p * (r * r) + r;
        T half_scale = as_T((n + 126) << 23);
        p = 2.0f * (p * half_scale + (half_scale - 0.5f));
        return as_T(as_I(p) | (as_I(a) & (I)(0x80000000)));""",
    "tanh": """
        T x = as_T(as_I(a) & (I)(0x7fffffff)), square = x * x;
        T p = square * -0.006242849f + 0.021050714f;
        p = p * square + -0.053847548f;
        p = p * square + 0.13332544f;
        p = p * square + -0.33333316f;
        p = p * square * x + x;
        T far = 1.0f - 2.0f / (exp(2.0f * x) + 1.0f);
        p = x > 0.55f ? far : p;
        return as_T(as_I(p) | (as_I(a) & (I)(0x80000000)));""",
    # log(2^n m) = n log(2) + log(1 + f), m = 1 + f from 2/3 to 4/3.
    "log": """
        T x = a < 1.17549435e-38f ? a * 8388608.0f : a;
        T n = a < 1.17549435e-38f ? (T)(-23.0f) : (T)(0.0f);
        I power = (as_I(x) - 0x3f2aaaab) & (I)(0xff800000);
        T f = as_T(as_I(x) - power) - 1.0f, square = f * f;
        n += as_T((power >> 23) + 0x4b400000) - 12582912.0f;
        LOG
        return ((a > 0.0f) & (a < INFINITY)) ? p : (a == 0.0f ? (T)(-INFINITY) : (a < 0.0f ? (T)(NAN) : a));""",
    # f = a / 2^n + (1 / 2^n - 1), without the rounding of 1 + a.
    "log1p": """
        I power = (as_I(a + 1.0f) - 0x3f2aaaab) & (I)(0xff800000);
        T f = as_T(as_I(a) - power) + (0.25f * as_T(0x40800000 - power) - 1.0f), square = f * f;
        T n = as_T((power >> 23) + 0x4b400000) - 12582912.0f;
        LOG
        p = ((a > -1.0f) & (a < INFINITY)) ? p : (a == -1.0f ? (T)(-INFINITY) : (a < -1.0f ? (T)(NAN) : a));
        return fabs(a) < 1e-6f ? a * (1.0f - 0.5f * a) : p;""",
}
# Shared by bodies: x = n log(2) + r with the first terms of exp(r), and n log(2) + log(1 + f) of f and its square.
_POWER = """T k = x * 1.44269504f + 12582912.0f;
        I n = as_I(k) - 0x4b400000;
        k -= 12582912.0f;
        T r = k * -1.42860677e-6f + (k * -0.693145752f + x);
        T p = r * 0.0013820748f + 0.008368677f;
        p = p * r + 0.041668266f;
        p = p * r + 0.16666521f;
        p = p * r + 0.49999994f;"""
_LOG = """T p = f * -0.1288261f + 0.13986708f;
        p = p * f + -0.12186467f;
        p = p * f + 0.1400534f;
        p = p * f + -0.16680317f;
        p = p * f + 0.20010445f;
        p = p * f + -0.24999802f;
        p = p * f + 0.33333215f;
        p = p * f + -0.5f;
        p = n * 0.693147182f + (p * square + f);"""
NEEDS = {"tanh": ("exp",), "log1p": ("fabs",)}  # what the bodies call
TEXT = f"{_BODIES}{_POWER}{_LOG}"
_DECLARATION = re.compile(r"__attribute__\(\(overloadable, const\)\) (float(\d*)) (\w+)\((.*)\);")


def in_line(declaration: str) -> str:
    """Returns the definition of a declared function if it is in line and takes floats, else the declaration."""
    parts = _DECLARATION.fullmatch(declaration)
    if parts is None or (body := _BODIES.get(parts[3])) is None:
        return declaration
    kind, width, name, types = parts.groups()
    taken = ", ".join(f"{type_} {value}" for type_, value in zip(types.split(", "), "abc"))
    body = re.sub(
        r"(?<![A-Za-z])I\b",
        f"int{width}",
        re.sub(r"(?<![A-Za-z])T\b", kind, body.replace("LOG", _LOG).replace("POWER", _POWER)),
    )
    if width and types.endswith(" float"):  # a vector and a scalar
        body = re.sub(r"\bb\b", f"({kind})(b)", body)
    contracted = f"{{\n#pragma OPENCL FP_CONTRACT ON\n{body}\n}}"
    return f"__attribute__((overloadable, always_inline)) static {kind} {name}({taken}) {contracted}"
