// contract_implicit_gemm/float32_32_0
#define DTYPE_FLOAT32 1
#define SPAN_ROWS 32
#define ITEMS_X 16
#define ITEMS_Y 8
#define A_ALONG 0
#define B_ALONG 1
#define OUT_LANES 4
#define OFFSET int
#define finished(sum, row, column, to) (sum)
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
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
    #pragma unroll
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
// Implicit GEMM for GPUs, with split-K.
// out[z][i][j] = sum_k A[z][i][k] * B[z][k][j], indices k and j counting through four levels with
// strides of their own (see contract_cpu.cl), A and B read in place.
//
// windows  work-group of ITEMS_X x ITEMS_Y: a tile of SPAN_ROWS x SPAN outputs, k in steps of DEEP through two tiles of each
//          operand in local memory: one is read while the other is filled (2 * DEEP * (SPAN_ROWS + SPAN + 8) elements). The
//          offsets of rows and columns are computed once; LISTED work-items compute the offsets of as many terms of k ahead.
//          OUT_LANES results are stored at a time, all of 32 bits if they are several. Partial sum s of `splits` goes to
//          `out` + s * out_part.
//
// Offsets within a matrix have 32 bits, divisions too. Without split-K, sums go through epilogue(sum, operands...) if
// there are operands. Contraction of a*b+c into one rounding is allowed here.

#ifndef DTYPE_FLOAT32
#undef OUT_LANES
#define OUT_LANES 1
#endif
#define A_EACH (SPAN_ROWS * DEEP / ITEMS)
#define B_EACH (SPAN * DEEP / ITEMS)
#define B_COLUMNS (B_ALONG ? B_EACH : SPAN > ITEMS ? SPAN / ITEMS : 1)  // of a work-item
#define LISTED 64

typedef struct {
    long m, k, n, inner_batch, splits, split, accumulate, parts;
    long a_row, out_row, a_offset, b_offset, out_offset, out_part;
    long a_batch[2], b_batch[2], out_batch[2];
    long k_extent[4], a_k[4], b_k[4], n_extent[4], b_n[4], out_n[4];
} windowed;

// The offsets of an index that counts through `extent`, by two sets of strides.
static inline int2 both_offsets(const int index, const long* extent, const long* one, const long* other) {
    uint rest = index;
    int2 at = 0;
    for (int d = 3; d > 0; d--) {
        const uint size = extent[d], next = rest / size;
        const int here = rest - next * size;
        at += (int2)(here * (int)one[d], here * (int)other[d]);
        rest = next;
    }
    return at + (int2)((int)rest * (int)one[0], (int)rest * (int)other[0]);
}

__kernel __attribute__((reqd_work_group_size(ITEMS_X, ITEMS_Y, 1))) void windows(
    __global const STORAGE *restrict a,
    __global const STORAGE *restrict b,
    __global void *restrict out,
    const windowed geometry) {
    __local REAL_4 a_tiles[2][DEEP * ROW_A / 4], b_tiles[2][DEEP * ROW_B / 4];
    __local int2 listed[2][LISTED];
    const windowed g = geometry;
    const int x = get_local_id(0), y = get_local_id(1), item = y * ITEMS_X + x;
    const int m = g.m, n = g.n, row = get_group_id(1) * SPAN_ROWS, column = get_group_id(0) * SPAN;
    const long part = get_global_id(2) % g.splits, z = get_global_id(2) / g.splits;
    const long outer = z / g.inner_batch, inner = z % g.inner_batch;
    const int first = part * g.split, last = min(g.k, (long)first + g.split);
    a += g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1];
    b += g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1];
    // Rows and columns past an edge are read as the last ones and not stored.
    int a_from[A_EACH], b_from[B_COLUMNS];
    #pragma unroll
    for (int i = 0; i < A_EACH; i++) a_from[i] = min(row + ACROSS(i, SPAN_ROWS, A_ALONG, 1), m - 1) * (int)g.a_row;
    #pragma unroll
    for (int i = 0; i < B_COLUMNS; i++)
        b_from[i] = both_offsets(min(column + ACROSS(i, SPAN, B_ALONG, 1), n - 1), g.n_extent, g.b_n, g.b_n).x;
    REAL a_next[A_EACH], b_next[B_EACH];
    REAL_4 sums[4 * QUARTERS][2];
    for (int i = 0; i < 4 * QUARTERS; i++) sums[i][0] = sums[i][1] = 0;
    if (item < LISTED) listed[0][item] = both_offsets(min(first + item, last - 1), g.k_extent, g.a_k, g.b_k);
    barrier(CLK_LOCAL_MEM_FENCE);
    int slot = 0;
    for (int start = first - DEEP; start < last; start += DEEP, slot ^= 1) {
        const int coming = start + DEEP, done = coming - first;
        if (coming < last) {
            __local const int2* steps = listed[done / LISTED & 1] + done % LISTED;
            #pragma unroll
            for (int i = 0; i < A_EACH; i++) {
                const int k = AT(i, SPAN_ROWS, A_ALONG, 1);
                a_next[i] = coming + k < last ? LOAD(a, a_from[i] + steps[k].x) : (REAL)0;
            }
            #pragma unroll
            for (int i = 0; i < B_EACH; i++) {
                const int k = AT(i, SPAN, B_ALONG, 1);
                b_next[i] = coming + k < last ? LOAD(b, b_from[i % B_COLUMNS] + steps[k].y) : (REAL)0;
            }
            if (done % LISTED == 0 && item < LISTED)  // the other list was last read before the last barrier
                listed[~(done / LISTED) & 1][item] = both_offsets(min(coming + LISTED + item, last - 1), g.k_extent, g.a_k, g.b_k);
        }
        if (start >= first) multiply_tiles(a_tiles[slot], b_tiles[slot], x, y, sums);
        if (coming < last) {
            __local REAL* a_tile = (__local REAL*)a_tiles[slot ^ 1];
            __local REAL* b_tile = (__local REAL*)b_tiles[slot ^ 1];
            #pragma unroll
            for (int i = 0; i < A_EACH; i++) a_tile[AT(i, SPAN_ROWS, A_ALONG, 1) * ROW_A + ACROSS(i, SPAN_ROWS, A_ALONG, 1)] = a_next[i];
            #pragma unroll
            for (int i = 0; i < B_EACH; i++) b_tile[AT(i, SPAN, B_ALONG, 1) * ROW_B + ACROSS(i, SPAN, B_ALONG, 1)] = b_next[i];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const long base = g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1] + part * g.out_part;
    __global REAL* sum = (__global REAL*)out + base;
    __global STORAGE* result = (__global STORAGE*)out + base;
    for (int half_ = 0; half_ < 2; half_++) {
        const int from = column + half_ * 4 * ITEMS_X + x * 4;
        int to[4];
        for (int j = 0; j < 4; j++)
            to[j] = OUT_LANES == 4 && j > 0 ? to[0] + j : both_offsets(min(from + j, n - 1), g.n_extent, g.out_n, g.out_n).x;
        for (int i = 0; i < 4 * QUARTERS; i++) {  // all are finished before the first is stored, so that no read waits for a write
            const int r = min(row + i / 4 * 4 * ITEMS_Y + y * 4 + i % 4, m - 1);
            REAL four[4] = {sums[i][half_].s0, sums[i][half_].s1, sums[i][half_].s2, sums[i][half_].s3};
            for (int j = 0; j < 4; j++) four[j] = finished(four[j], r, min(from + j, n - 1), to[j]);
            sums[i][half_] = (REAL_4)(four[0], four[1], four[2], four[3]);
        }
        for (int i = 0; i < 4 * QUARTERS; i++) {
            const int r = row + i / 4 * 4 * ITEMS_Y + y * 4 + i % 4;
            if (r >= m) continue;
#if OUT_LANES == 4
            __global REAL_4* at = (__global REAL_4*)(sum + (to[0] + r * (int)g.out_row));
            if (from < n) *at = g.accumulate ? *at + sums[i][half_] : sums[i][half_];
#else
            const REAL four[4] = {sums[i][half_].s0, sums[i][half_].s1, sums[i][half_].s2, sums[i][half_].s3};
            for (int j = 0; j < 4; j++) {
                if (from + j >= n) continue;
                const int at = to[j] + r * (int)g.out_row;
                if (!g.parts) STORE(four[j], result, at);
                else sum[at] = g.accumulate ? sum[at] + four[j] : four[j];
            }
#endif
        }
    }
}
