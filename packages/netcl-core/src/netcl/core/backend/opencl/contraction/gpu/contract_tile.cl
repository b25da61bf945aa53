// The inner loop of the GPU kernels with large tiles: steps of DEEP along k through local memory, ITEMS_X x ITEMS_Y
// work-items with QUARTERS * 4 x 8 sums each, in quarters of 4 x 4 at distances of 4 * ITEMS_Y rows or 4 * ITEMS_X columns.

#ifdef DTYPE_FLOAT64
#define DEEP 8
#else
#define DEEP 16
#endif
#define REAL_4 JOIN(REAL, 4)
#define ITEMS (ITEMS_X * ITEMS_Y)
#define SPAN (8 * ITEMS_X)
#define QUARTERS (SPAN_ROWS / (4 * ITEMS_Y))
#define ROW_A (SPAN_ROWS + 4)
#define ROW_B (SPAN + 4)

// The place along k and across it of load i of a work-item from a tile of DEEP x span, LANES elements each: adjacent loads
// are along k if that is contiguous, else across.
#define AT(i, span, along, lanes) \
    ((along) ? (item + (i) * ITEMS) % (DEEP / (lanes)) * (lanes) : (item + (i) * ITEMS) / ((span) / (lanes)))
#define ACROSS(i, span, along, lanes) \
    ((along) ? (item + (i) * ITEMS) / (DEEP / (lanes)) : (item + (i) * ITEMS) % ((span) / (lanes)) * (lanes))

#define MULTIPLY_QUARTER(q, a) \
    sums[q + 0][0] += a.s0 * b0; sums[q + 0][1] += a.s0 * b1; sums[q + 1][0] += a.s1 * b0; sums[q + 1][1] += a.s1 * b1; \
    sums[q + 2][0] += a.s2 * b0; sums[q + 2][1] += a.s2 * b1; sums[q + 3][0] += a.s3 * b0; sums[q + 3][1] += a.s3 * b1;

// sums += the products of the tiles in local memory, for work-item (x, y).
static inline void multiply_tiles(__local const REAL_4* a_tile, __local const REAL_4* b_tile, const int x, const int y,
                                  REAL_4 sums[4 * QUARTERS][2]) {
    ${unroll}
    for (int k = 0; k < DEEP; k++) {
        const REAL_4 b0 = b_tile[k * (ROW_B / 4) + x], b1 = b_tile[k * (ROW_B / 4) + ITEMS_X + x];
        const REAL_4 a0 = a_tile[k * (ROW_A / 4) + y];
        MULTIPLY_QUARTER(0, a0)
#if QUARTERS == 2
        const REAL_4 a1 = a_tile[k * (ROW_A / 4) + ITEMS_Y + y];
        MULTIPLY_QUARTER(4, a1)
#endif
    }
}
