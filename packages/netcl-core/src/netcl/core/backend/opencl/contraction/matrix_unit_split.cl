// Splits float32 into PARTS bfloat16 planes of `count` elements each: the nearest bfloat16, that of the remainder, and so on. Three
// have all 24 bits of a number of at least 2^-109; of smaller ones the last bits are below what bfloat16 has. Inf and NaN are in
// the first plane alone; a number that rounds to Inf is truncated. One work-item: four elements.

static inline ushort nearest(const float x) {
    const uint bits = as_uint(x), rounded = bits + 0x7fff + (bits >> 16 & 1);
    if (isnan(x)) return bits >> 16 | 0x40;
    return (rounded & 0x7fffffff) >= 0x7f800000 && !isinf(x) ? bits >> 16 : rounded >> 16;
}

static inline float rest_of(const float x, const ushort part) {
    return isfinite(x) ? x - as_float((uint)part << 16) : 0;
}

__kernel void split_parts(__global const float* restrict x, __global ushort* restrict planes, const long count) {
    const long first = get_global_id(0) * 4;
    if (count % 4 == 0) {  // aligned vectors
        if (first >= count) return;
        float4 rest = *(__global const float4*)(x + first);
        for (int plane = 0; plane < PARTS; plane++) {
            const ushort4 part = (ushort4)(nearest(rest.x), nearest(rest.y), nearest(rest.z), nearest(rest.w));
            *(__global ushort4*)(planes + plane * count + first) = part;
            rest = (float4)(rest_of(rest.x, part.x), rest_of(rest.y, part.y), rest_of(rest.z, part.z), rest_of(rest.w, part.w));
        }
        return;
    }
    for (long i = first; i < min(count, first + 4); i++) {
        float rest = x[i];
        for (int plane = 0; plane < PARTS; plane++) {
            const ushort part = nearest(rest);
            planes[plane * count + i] = part;
            rest = rest_of(rest, part);
        }
    }
}
