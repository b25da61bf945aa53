// The fragments of matrix_unit_mma_loads.cl, element by element.

#define FRAGMENT_A uint4
#define FRAGMENT_B uint4
#define LOAD_A(part, tile, row, k) part = fragment_a(tile, row, k, lane)
#define LOAD_B(part, tile, column, k) part = fragment_b(tile, column, k, lane)
#define MULTIPLY_ACCUMULATE(sums, a, b) { MULTIPLY(sums, a, b.x, b.y); MULTIPLY(sums + 4, a, b.z, b.w); }

static inline uint pair_along(__local const ushort* tile, const uint index, const uint k) {
    return tile[ALONG(index, index, k / 8) + k % 8] | (uint)tile[ALONG(index, index, k / 8) + k % 8 + 1] << 16;
}

static inline uint pair_across(__local const ushort* tile, const uint index, const uint k) {
    return tile[ACROSS(k, k, index / 8) + index % 8] | (uint)tile[ACROSS(k + 1, k + 1, index / 8) + index % 8] << 16;
}

#if A_ALONG
#define PAIR_A(index, k) pair_along(tile, index, k)
#else
#define PAIR_A(index, k) pair_across(tile, index, k)
#endif
#if B_ALONG
#define PAIR_B(index, k) pair_along(tile, index, k)
#else
#define PAIR_B(index, k) pair_across(tile, index, k)
#endif

static inline uint4 fragment_a(__local const ushort* tile, const uint row, const uint k, const uint lane) {
    const uint i = row + lane / 4, at = k + lane % 4 * 2;
    return (uint4)(PAIR_A(i, at), PAIR_A(i + 8, at), PAIR_A(i, at + 8), PAIR_A(i + 8, at + 8));
}

static inline uint4 fragment_b(__local const ushort* tile, const uint column, const uint k, const uint lane) {
    const uint j = column + lane / 4, at = k + lane % 4 * 2;
    return (uint4)(PAIR_B(j, at), PAIR_B(j, at + 8), PAIR_B(j + 8, at), PAIR_B(j + 8, at + 8));
}
