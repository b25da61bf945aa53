// The software twin of matrix_unit_wgmma.cl: each work-item computes its own sums from the tiles in local memory.

#define AHEAD (STAGES - 2)
#define UNIT_MEMORY(some)
#define FRAGMENT_ROW(i) ((warp / 4 * (WARP_M / 16) + (i)) * 64 + warp % 4 * 16)
#define WARP_COLUMN 0
#define MULTIPLY_TILES(a_tile, b_tile) \
    for (int i = 0; i < WARP_M / 16; i++) \
        for (int j = 0; j < WARP_N / 8; j++) \
            for (int e = 0; e < 4; e++) { \
                const int row = FRAGMENT_ROW(i) + SUM_ROW(lane, e), column = j * 8 + SUM_COLUMN(lane, e); \
                SUM sum = sums[i][j][e]; \
                for (int k = 0; k < SPAN_K / WORDS; k++) sum += element(A_AT(a_tile, row, k)) * element(B_AT(b_tile, column, k)); \
                sums[i][j][e] = sum; \
            }
#define MULTIPLIES_END

