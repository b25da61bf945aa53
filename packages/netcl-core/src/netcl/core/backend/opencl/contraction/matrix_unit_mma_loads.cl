// Fragments of the tiles of contract_matrix_unit.cl, loaded by ldmatrix.

static inline uint4 fragment_a(__local const ushort* tile, const uint row, const uint k, const uint lane) {
#if A_ALONG
    return rows_of(tile + ALONG(row + lane % 16, lane % 8, k / 8 + lane / 16));
#else
    return columns_of(tile + ACROSS(k + lane % 8 + lane / 16 * 8, lane % 8, row / 8 + lane / 8 % 2));
#endif
}

static inline uint4 fragment_b(__local const ushort* tile, const uint column, const uint k, const uint lane) {
#if B_ALONG
    return rows_of(tile + ALONG(column + lane % 8 + lane / 16 * 8, lane % 8, k / 8 + lane / 8 % 2));
#else
    return columns_of(tile + ACROSS(k + lane % 16, lane % 8, column / 8 + lane / 16));
#endif
}
