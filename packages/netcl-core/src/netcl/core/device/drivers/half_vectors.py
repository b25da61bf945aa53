"""Text before programs of PoCL that replaces its loads and stores of vectors of halves.

PoCL (seen with 5.0 and 7.1) assumes that the address of a vector of halves is a multiple of the vector's size, though
OpenCL C requires only the alignment of an element: if its compiler makes an aligned move of the access, the process
ends. In the replacements the elements pass through a vector that may be at any address, and are converted in private
memory. PoCL 3.0 makes no aligned moves of them, and such copies take 1.7 times as long there: only the conversion of
eight is replaced, by instructions of its compiler that take half the time with AVX2, for a chain of elementwise ops.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

_WIDTHS = (4, 8, 16)
_NAMES = tuple(f"_half{width}" for width in _WIDTHS)
_SPACES = ("__global", "__local", "__private", "__generic")
_FUNCTION = "static inline __attribute__((overloadable, always_inline))"
# For global pointers to elements that need not be aligned to vectors.
_BY_INSTRUCTIONS = """\
#if defined(POCL_DEVICE_ADDRESS_BITS) && defined(__clang__) && defined(__F16C__)
typedef __fp16 half_vector __attribute__((ext_vector_type(8), aligned(2)));
#undef vload_half8
#undef vstore_half8_rte
#define vload_half8(i, p) __builtin_convertvector(*((__global const half_vector *)(p) + (i)), float8)
#define vstore_half8_rte(x, i, p) *((__global half_vector *)(p) + (i)) = __builtin_convertvector((x), half_vector)
#endif
"""


def half_vectors(source: str, version: str) -> str:
    """Returns the text that precedes ``source`` on the PoCL of a platform's ``version``; empty if it needs none."""
    if "PoCL 3.0" in version:
        eight = any(f"vload_half8(0, {name}" in source for name in ("in", "d +")) or "vstore_half8_rte(" in source
        return _BY_INSTRUCTIONS if eight and "FP_CONTRACT OFF" in source else ""
    return unaligned() if any(name in source for name in _NAMES) else ""


@lru_cache(maxsize=1)
def unaligned() -> str:
    """Returns replacements of vload_half4, 8, 16, vstore_half4, 8, 16 and vstore_half4, 8, 16_rte for any address."""
    lines = [line for width in _WIDTHS for line in _overloads(width)]
    for width in _WIDTHS:
        for name, other in (("vload_half{}", "load"), ("vstore_half{}", "store"), ("vstore_half{}_rte", "store")):
            lines += [f"#undef {name.format(width)}", f"#define {name.format(width)} {other}_halves{width}"]
    return "\n".join(lines) + "\n"


def _overloads(width: int) -> Iterator[str]:
    """Yields the functions for all address spaces and types, before the names that they call are replaced."""
    vector = f"ushort{width}"
    yield f"typedef {vector} __attribute__((aligned(2))) halves{width};"
    for space in _SPACES:
        if space == "__generic":
            yield "#ifdef __opencl_c_generic_address_space"
        yield (
            f"{_FUNCTION} float{width} load_halves{width}(const size_t i, const {space} half* p) {{ "
            f"const {vector} v = *((const {space} halves{width}*)p + i); "
            f"return vload_half{width}(0, (const __private half*)&v); }}"
        )
        for real in ("float", "double"):
            if real == "double":
                yield "#ifdef cl_khr_fp64"
            yield (
                f"{_FUNCTION} void store_halves{width}(const {real}{width} x, const size_t i, {space} half* p) {{ "
                f"{vector} v; vstore_half{width}_rte(x, 0, (__private half*)&v); "
                f"*(({space} halves{width}*)p + i) = v; }}"
            )
        yield "#endif"
        if space == "__generic":
            yield "#endif"
