// The tiles of operands in local memory, for contract_matrix_unit.cl and the units that it runs on: chunks of 8 elements,
// swizzled so that the 8 rows of a fragment are in different banks.

#define ITEMS (32 * WARPS_M * WARPS_N)
#define WARP_M (SPAN_M / WARPS_M)
#define WARP_N (SPAN_N / WARPS_N)
#define TILE_A (SPAN_M * SPAN_K)
#define TILE_B (SPAN_N * SPAN_K)
#define ALONG_CHUNKS (SPAN_K / 8)

// The element at which chunk `chunk` of row `row` begins in a tile of an operand that is contiguous along k: rows of SPAN_K
// elements; across it: panels of 64 columns, in each SPAN_K rows of 64 elements. `low` is congruent to the row modulo 8: a
// number that does not change in loops over fragments, so that swizzles are computed once.
#define SWIZZLE(low) (ALONG_CHUNKS == 4 ? ((low) >> 1) & 3 : (low) & 7)
#define ALONG(row, low, chunk) ((row) * SPAN_K + (((chunk) ^ SWIZZLE(low)) * 8))
#define ACROSS(row, low, chunk) ((chunk) / 8 * (SPAN_K * 64) + (row) * 64 + ((((chunk) & 7) ^ ((low) & 7)) * 8))

