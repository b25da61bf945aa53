// contract_wide/float32
#define DTYPE_FLOAT32 1
#define SPAN_ROWS 128
#define SPAN 128
#define OFFSET int
#define finished(sum, row, column, to) (sum)
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// The inner loop of the GPU kernels with large tiles: steps of DEEP along k through local memory, 16 x 16 work-items with
// QUARTERS * 4 x 8 sums each, in quarters of 4 x 4 at distances of 64 rows or columns.

#define REAL_4 JOIN(REAL, 4)
#define DEEP 16
#define QUARTERS (SPAN_ROWS / 64)
#define ROW_A (SPAN_ROWS + 4)
#define ROW_B (SPAN + 4)

// Elements of a tile of DEEP x span that a work-item loads: adjacent along k if that is contiguous, else across.
#define AT(i, span, along) ((along) ? (int)((item + (i) * 256) % DEEP) : (int)((item + (i) * 256) / (span)))
#define ACROSS(i, span, along) ((along) ? (int)((item + (i) * 256) / DEEP) : (int)((item + (i) * 256) % (span)))

#define MULTIPLY_QUARTER(q, a) \
    sums[q + 0][0] += a.s0 * b0; sums[q + 0][1] += a.s0 * b1; sums[q + 1][0] += a.s1 * b0; sums[q + 1][1] += a.s1 * b1; \
    sums[q + 2][0] += a.s2 * b0; sums[q + 2][1] += a.s2 * b1; sums[q + 3][0] += a.s3 * b0; sums[q + 3][1] += a.s3 * b1;

// sums += the products of the tiles in local memory, for work-item (x, y).
static inline void multiply_tiles(__local const REAL_4* a_tile, __local const REAL_4* b_tile, const int x, const int y,
                                  REAL_4 sums[4 * QUARTERS][2]) {
    #pragma unroll
    for (int k = 0; k < DEEP; k++) {
        const REAL_4 b0 = b_tile[k * (ROW_B / 4) + x], b1 = b_tile[k * (ROW_B / 4) + 16 + x];
        const REAL_4 a0 = a_tile[k * (ROW_A / 4) + y];
        MULTIPLY_QUARTER(0, a0)
#if QUARTERS == 2
        const REAL_4 a1 = a_tile[k * (ROW_A / 4) + 16 + y];
        MULTIPLY_QUARTER(4, a1)
#endif
    }
}
// The strides and offsets of a matrix product: out[z][i][j] = sum_k A[z][i][k] * B[z][k][j], with one stride for each
// index; offsets within a matrix have 32 bits.

typedef struct {
    long m, k, n, inner_batch;
    long a_row, a_k, b_k, b_n, out_row, out_n;
    long a_offset, b_offset, out_offset;
    long a_batch[2], b_batch[2], out_batch[2];
} product;
// Register-tiled GEMM for GPUs: out[z][i][j] = sum_k A[z][i][k] * B[z][k][j], A, B and out with one stride for each index.
//
// wide   work-group of 16 x 16: a tile of 128 x 128 outputs, 8 x 8 per work-item in quarters of 4 x 4, k in steps of DEEP
//        through local memory (2 * DEEP * 132 elements) while the next step is prefetched to registers.
//
// Offsets within a matrix have 32 bits. Sums go through epilogue(sum, operands...) if there are operands. Contraction of
// a*b+c into one rounding is allowed here.

#define EACH (SPAN * DEEP / 256)

__kernel __attribute__((reqd_work_group_size(16, 16, 1))) void wide(
    __global const STORAGE *restrict a,
    __global const STORAGE *restrict b,
    __global STORAGE *restrict out,
    const product g) {
    __local REAL_4 a_tile[DEEP * ROW_A / 4], b_tile[DEEP * ROW_B / 4];
    __local REAL* a_local = (__local REAL*)a_tile;
    __local REAL* b_local = (__local REAL*)b_tile;
    const int x = get_local_id(0), y = get_local_id(1), item = y * 16 + x;
    const int m = g.m, n = g.n, depth = g.k, row = get_group_id(1) * SPAN, column = get_group_id(0) * SPAN;
    const long z = get_global_id(2), outer = z / g.inner_batch, inner = z % g.inner_batch;
    a += g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1];
    b += g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1];
    out += g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1];
    const int a_row = g.a_row, a_k = g.a_k, b_k = g.b_k, b_n = g.b_n, out_row = g.out_row, out_n = g.out_n;
    const bool a_along = a_k == 1, b_along = b_k == 1;
    REAL a_next[EACH], b_next[EACH];
    REAL_4 sums[8][2];
    for (int i = 0; i < 8; i++) sums[i][0] = sums[i][1] = 0;
    for (int start = -DEEP; start < depth; start += DEEP) {
        const int coming = start + DEEP;
        if (coming < depth)
            for (int i = 0; i < EACH; i++) {
                const int ak = coming + AT(i, SPAN, a_along), bk = coming + AT(i, SPAN, b_along);
                const int r = row + ACROSS(i, SPAN, a_along), c = column + ACROSS(i, SPAN, b_along);
                a_next[i] = ak < depth && r < m ? LOAD(a, r * a_row + ak * a_k) : (REAL)0;
                b_next[i] = bk < depth && c < n ? LOAD(b, c * b_n + bk * b_k) : (REAL)0;
            }
        if (start >= 0) multiply_tiles(a_tile, b_tile, x, y, sums);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (coming < depth)
            for (int i = 0; i < EACH; i++) {
                a_local[AT(i, SPAN, a_along) * ROW_A + ACROSS(i, SPAN, a_along)] = a_next[i];
                b_local[AT(i, SPAN, b_along) * ROW_B + ACROSS(i, SPAN, b_along)] = b_next[i];
            }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int i = 0; i < 8; i++) {
        const int r = row + i / 4 * 64 + y * 4 + i % 4;
        if (r >= m) continue;
        for (int half_ = 0; half_ < 2; half_++) {
            REAL four[4] = {sums[i][half_].s0, sums[i][half_].s1, sums[i][half_].s2, sums[i][half_].s3};
            for (int j = 0; j < 4; j++) {
                const int c = min(column + half_ * 64 + x * 4 + j, n - 1);
                four[j] = finished(four[j], r, c, c * out_n);
            }
            for (int j = 0; j < 4; j++) {
                const int c = column + half_ * 64 + x * 4 + j;
                if (c < n) STORE(four[j], out, r * out_row + c * out_n);
            }
        }
    }
}
