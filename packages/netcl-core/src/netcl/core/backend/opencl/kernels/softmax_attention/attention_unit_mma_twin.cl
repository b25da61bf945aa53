// The fragments of attention_unit_mma.cl element by element, and the exchanges of scores through local memory.

static inline uint pair_in_row(__local const ushort* tile, const uint rows, const uint row, const uint column) {
    const uint at = PANEL(rows, row, row, column / 8) + column % 8;
    return tile[at] | (uint)tile[at + 1] << 16;
}

static inline uint pair_in_column(__local const ushort* tile, const uint rows, const uint row, const uint column) {
    return tile[PANEL(rows, row, row, column / 8) + column % 8] |
           (uint)tile[PANEL(rows, row + 1, row + 1, column / 8) + column % 8] << 16;
}

static inline uint4 left_fragment(__local const ushort* tile, const uint rows, const uint row, const uint column, const uint lane) {
    const uint i = row + lane / 4, k = column + lane % 4 * 2;
    return (uint4)(pair_in_row(tile, rows, i, k), pair_in_row(tile, rows, i + 8, k), pair_in_row(tile, rows, i, k + 8),
                   pair_in_row(tile, rows, i + 8, k + 8));
}

static inline uint4 along_fragment(__local const ushort* tile, const uint rows, const uint row, const uint column, const uint lane) {
    const uint j = row + lane / 4, k = column + lane % 4 * 2;
    return (uint4)(pair_in_row(tile, rows, j, k), pair_in_row(tile, rows, j, k + 8), pair_in_row(tile, rows, j + 8, k),
                   pair_in_row(tile, rows, j + 8, k + 8));
}

static inline uint4 across_fragment(__local const ushort* tile, const uint rows, const uint row, const uint column, const uint lane) {
    const uint k = row + lane % 4 * 2, j = column + lane / 4;
    return (uint4)(pair_in_column(tile, rows, k, j), pair_in_column(tile, rows, k + 8, j), pair_in_column(tile, rows, k, j + 8),
                   pair_in_column(tile, rows, k + 8, j + 8));
}

static inline ushort stored(const float x) {
#if defined(DTYPE_BFLOAT16)
    return to_bfloat16(x);
#elif PARTS
    const uint bits = as_uint(x);
    return isnan(x) ? bits >> 16 | 64 : bits + 0x7fff + (bits >> 16 & 1) >> 16;
#else
    ushort bits;
    vstore_half(x, 0, (half*)&bits);
    return bits;
#endif
}

static inline uint packed(const float low, const float high) { return stored(low) | (uint)stored(high) << 16; }

static inline float exponential(const float x) { return exp2(x); }

static inline float quad(const float x, const bool largest, __local uint* fragments, const int item) {
    fragments[item] = as_uint(x);
    barrier(CLK_LOCAL_MEM_FENCE);
    const int first = item / 4 * 4;
    float result = as_float(fragments[first]);
    for (int i = 1; i < 4; i++) {
        const float other = as_float(fragments[first + i]);
        result = largest ? fmax(result, other) : result + other;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return result;
}
#define QUAD_MAX(x) quad(x, true, fragments, item)
#define QUAD_SUM(x) quad(x, false, fragments, item)
