"""Unsigned keys in the order of the values, in OpenCL C: NaN is last, the zeros are equal.

They are made from the bits, since a device may treat subnormal numbers as zero.
"""

from __future__ import annotations

from functools import lru_cache

from netcl.core.backend.opencl.template_text import filled
from netcl.core.backend.opencl.templates import filled_program
from netcl.core.dtypes import is_integer, itemsize

_WHOLE = """\
#define TELLS(key) 1
static inline ulong key_of(const REAL v) { return ${key}; }
static inline REAL value_of(const ulong key) { return ${value}; }
#define DIFFER(v, w) ((v) != (w))"""

_FLOATING = """\
typedef ${bits} real_bits;
#define TELLS(key) ${tells}
static inline ulong key_of(const REAL v) {
    const real_bits bits = as_${bits}(v);
    if ((bits & ~SIGN) > ${infinity}) return KEY_MASK;
    return ${zero}(real_bits)(bits & SIGN ? ~bits : bits | SIGN);
}
static inline REAL value_of(const ulong key) {
    const real_bits bits = (real_bits)key;
    return as_${real}(bits & SIGN ? bits & ~SIGN : ~bits);
}
static inline int differ(const REAL v, const REAL w) {
    const real_bits one = as_${bits}(v), other = as_${bits}(w);
    return ((one != other) & ((one | other) << 1 != 0)) | ((one & ~SIGN) > ${infinity});
}
#define DIFFER(v, w) differ(v, w)"""

_WIDE = {"bits": "ulong", "real": "double", "infinity": "0x7ff0000000000000UL"}
_NARROW = {"bits": "uint", "real": "float", "infinity": "0x7f800000U"}


def keys_text(dtype: str, values_only: bool = False) -> str:
    """Returns the text of key_of(value), value_of(key), KEY_MASK (the largest key), and TELLS(key): 1 if the key alone
    gives the value. With ``values_only`` every key does, and the zeros have different keys. DIFFER(v, w): 1 if v is NaN
    or does not equal w.
    """
    wide = itemsize(dtype) == 8
    head = f"#define SIGN {'(1UL << 63)' if wide else '0x80000000U'}\n"
    head += f"#define KEY_MASK {'(~0UL)' if wide else '0xffffffffUL'}\n"
    if dtype == "int64":
        return head + filled(_WHOLE, {"key": "as_ulong(v) ^ SIGN", "value": "as_long(key ^ SIGN)"})
    if dtype == "uint64":
        # sort.cl takes elements of two words for this.
        return head + "#define DTYPE_INT64 1\n" + filled(_WHOLE, {"key": "v", "value": "key"})
    if is_integer(dtype):
        sign = "" if dtype == "uint32" else " ^ SIGN"
        return head + filled(_WHOLE, {"key": f"(uint)v{sign}", "value": f"(REAL)((uint)key{sign})"})
    tells, zero = "((key) != SIGN && (key) != KEY_MASK)", "bits << 1 == 0 ? SIGN : "
    kept = {"tells": "1", "zero": ""} if values_only else {"tells": tells, "zero": zero}
    return head + filled(_FLOATING, {**(_WIDE if wide else _NARROW), **kept})


@lru_cache(maxsize=512)
def keyed_program(dtype: str, *names: str, values_only: bool = False, **numbers: object) -> str:
    """Returns the text of the templates ``names`` for keys of a dtype, with ``numbers`` defined; bool is sorted as the
    bytes 0 and 1.
    """
    dtype = "uint8" if dtype == "bool" else dtype
    if values_only:
        numbers["VALUES_ONLY"] = 1
    parts = {"keys": keys_text(dtype, values_only), "unroll": "#pragma unroll"}
    return filled_program(("storage", *names), ((f"DTYPE_{dtype.upper()}", 1), *numbers.items()), parts)
