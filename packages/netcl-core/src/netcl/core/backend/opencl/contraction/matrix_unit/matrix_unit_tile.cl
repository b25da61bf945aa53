// The tiles of operands in local memory, for contract_matrix_unit.cl and the units that it runs on. All sizes along k
// are in words of 16 bits; an element has WORDS words. Chunks of 8 words are swizzled so that the 8 rows of a fragment
// are in different banks.

#define ITEMS (LANES * WARPS_M * WARPS_N)
#define WARP_M (SPAN_M / WARPS_M)
#define WARP_N (SPAN_N / WARPS_N)
#define TILE_A (SPAN_M * SPAN_K)
#define TILE_B (SPAN_N * SPAN_K)
#define ALONG_CHUNKS (SPAN_K / 8)

// The word at which chunk `chunk` of row `row` begins in a tile of an operand that is contiguous along k: rows of SPAN_K
// words; across it: panels of 64 words, in each a row for each element along k. `low` is congruent to the row modulo 8: a
// number that does not change in loops over fragments, so that swizzles are computed once.
#define SWIZZLE(low) (ALONG_CHUNKS == 4 ? ((low) >> 1) & 3 : (low) & 7)
#define ALONG(row, low, chunk) ((row) * SPAN_K + (((chunk) ^ SWIZZLE(low)) * 8))
#define ACROSS(row, low, chunk) ((chunk) / 8 * (SPAN_K / WORDS * 64) + (row) * 64 + ((((chunk) & 7) ^ ((low) & 7)) * 8))

// The element of row (or column) `index` and number k along k of a tile.
#define AT_ALONG(tile, index, k) \
    (*(__local const ELEMENT*)((tile) + ALONG(index, index, (k) * WORDS / 8) + (k) * WORDS % 8))
#define AT_ACROSS(tile, index, k) \
    (*(__local const ELEMENT*)((tile) + ACROSS(k, k, (index) * WORDS / 8) + (index) * WORDS % 8))
#define A_AT(tile, index, k) (A_ALONG ? AT_ALONG(tile, index, k) : AT_ACROSS(tile, index, k))
#define B_AT(tile, index, k) (B_ALONG ? AT_ALONG(tile, index, k) : AT_ACROSS(tile, index, k))

