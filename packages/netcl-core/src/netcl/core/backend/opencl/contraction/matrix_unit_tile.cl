// The tiles of operands in local memory, for contract_matrix_unit.cl and the units that it runs on: chunks of 8 elements,
// swizzled so that the 8 rows of a fragment are in different banks.

#define ITEMS (32 * WARPS_M * WARPS_N)
#define WARP_M (SPAN_M / WARPS_M)
#define WARP_N (SPAN_N / WARPS_N)
#define TILE_A (SPAN_M * SPAN_K)
#define TILE_B (SPAN_N * SPAN_K)
#define ALONG_CHUNKS (SPAN_K / 8)

// The place of chunk `chunk` of row `row` in a tile: of an operand along k, and across it.
#define ALONG(row, chunk) ((row) * SPAN_K + (((chunk) ^ (ALONG_CHUNKS == 4 ? ((row) >> 1) & 3 : (row) & 7)) * 8))
#define ACROSS(span, row, chunk) ((row) * (span) + (((chunk) ^ ((row) & 7)) * 8))

