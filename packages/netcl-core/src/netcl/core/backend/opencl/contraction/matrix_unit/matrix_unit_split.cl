// Splits float32 into PARTS bfloat16 planes of `count` elements each: the nearest bfloat16, that of the remainder, and so on. Three
// have all 24 bits of a number of at least 2^-109; of smaller ones the last bits are below what bfloat16 has. Inf and NaN are in
// the first plane alone; a number that rounds to Inf is truncated. One work-item: eight elements.

#define LEAST_TO_INF 0x7f7f8000u  // the least size of a number that rounds to Inf

static inline ushort nearest(const float x) {
    const uint bits = as_uint(x), rounded = bits + 0x7fff + (bits >> 16 & 1);
    if (isnan(x)) return bits >> 16 | 0x40;
    return (rounded & 0x7fffffff) >= 0x7f800000 && !isinf(x) ? bits >> 16 : rounded >> 16;
}

static inline float rest_of(const float x, const ushort part) {
    return isfinite(x) ? x - as_float((uint)part << 16) : 0;
}

static inline ushort4 nearest_of_four(const float4 x) {
    return (ushort4)(nearest(x.x), nearest(x.y), nearest(x.z), nearest(x.w));
}

static inline float4 rest_of_four(const float4 x, const ushort4 part) {
    return (float4)(rest_of(x.x, part.x), rest_of(x.y, part.y), rest_of(x.z, part.z), rest_of(x.w, part.w));
}

// The bits of the nearest bfloat16s as floats, of numbers that are finite and do not round to Inf.
static inline uint4 rounded_bits(const float4 x) {
    const uint4 bits = as_uint4(x);
    return (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
}

$kernel split_parts(read float x, write ushort planes, long count) {
    const long first = get_global_id(0) * 8;
    if (count % 8 == 0) {  // aligned vectors
        if (first >= count) return;
        float4 low = *(__global const float4*)(x + first), high = *(__global const float4*)(x + first + 4);
        const uint4 sizes = max(as_uint4(low) & 0x7fffffffu, as_uint4(high) & 0x7fffffffu);
        if (max(max(sizes.x, sizes.y), max(sizes.z, sizes.w)) < LEAST_TO_INF) {
            for (int plane = 0; plane < PARTS; plane++) {
                const uint4 a = rounded_bits(low), b = rounded_bits(high);
                *(__global uint4*)(planes + plane * count + first) =
                    (uint4)(a.x >> 16 | a.y, a.z >> 16 | a.w, b.x >> 16 | b.y, b.z >> 16 | b.w);
                low -= as_float4(a);
                high -= as_float4(b);
            }
            return;
        }
        for (int plane = 0; plane < PARTS; plane++) {
            const ushort4 of_low = nearest_of_four(low), of_high = nearest_of_four(high);
            // Not as ushort8: oclgrind crashes when it tracks a vector that is joined of two.
            *(__global ulong2*)(planes + plane * count + first) = (ulong2)(as_ulong(of_low), as_ulong(of_high));
            low = rest_of_four(low, of_low);
            high = rest_of_four(high, of_high);
        }
        return;
    }
    for (long i = first; i < min(count, first + 8); i++) {
        float rest = x[i];
        for (int plane = 0; plane < PARTS; plane++) {
            const ushort part = nearest(rest);
            planes[plane * count + i] = part;
            rest = rest_of(rest, part);
        }
    }
}
