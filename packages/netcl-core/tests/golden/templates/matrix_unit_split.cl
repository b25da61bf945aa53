// matrix_unit_split/1
#pragma OPENCL FP_CONTRACT OFF
#define PARTS 1
#define LOOPS __attribute__((vec_type_hint(float16)))
// Splits float32 into PARTS bfloat16 planes of `count` elements each: the nearest bfloat16, that of the remainder, and so on. Three
// have all 24 bits of a number of at least 2^-109; of smaller ones the last bits are below what bfloat16 has. Inf and NaN are in
// the first plane alone; a number that rounds to Inf is truncated.

static inline ushort nearest(const float x) {
    const uint bits = as_uint(x), rounded = bits + 0x7fff + (bits >> 16 & 1);
    if (isnan(x)) return bits >> 16 | 0x40;
    return (rounded & 0x7fffffff) >= 0x7f800000 && !isinf(x) ? bits >> 16 : rounded >> 16;
}

__kernel void split_parts(__global const float* restrict x, __global ushort* restrict planes, const long count) {
    const long i = get_global_id(0);
    float remainder = x[i];
    for (int plane = 0; plane < PARTS; plane++) {
        const ushort part = nearest(remainder);
        planes[plane * count + i] = part;
        remainder = isfinite(remainder) ? remainder - as_float((uint)part << 16) : 0;
    }
}
