// The software twin of matrix_unit_wgmma.cl: each work-item computes its own sums from the tiles in local memory.

#define AHEAD (STAGES - 2)
#define UNIT_MEMORY(some)
#define FRAGMENT_ROW(i) ((warp / 4 * (WARP_M / 16) + (i)) * 64 + warp % 4 * 16)
#define WARP_COLUMN 0
#define AT_ALONG(tile, index, k) element(tile[ALONG(index, index, (k) / 8) + (k) % 8])
#define AT_ACROSS(tile, index, k) element(tile[ACROSS(k, k, (index) / 8) + (index) % 8])
#define A_AT(index, k) (A_ALONG ? AT_ALONG(a_tile, index, k) : AT_ACROSS(a_tile, index, k))
#define B_AT(index, k) (B_ALONG ? AT_ALONG(b_tile, index, k) : AT_ACROSS(b_tile, index, k))
#define MULTIPLY_TILES(a_tile, b_tile) \
    for (int i = 0; i < WARP_M / 16; i++) \
        for (int j = 0; j < WARP_N / 8; j++) \
            for (int e = 0; e < 4; e++) { \
                const int row = FRAGMENT_ROW(i) + lane / 4 + e / 2 * 8, column = j * 8 + lane % 4 * 2 + e % 2; \
                float sum = sums[i][j][e]; \
                for (int k = 0; k < SPAN_K; k++) sum += A_AT(row, k) * B_AT(column, k); \
                sums[i][j][e] = sum; \
            }
#define MULTIPLIES_END

