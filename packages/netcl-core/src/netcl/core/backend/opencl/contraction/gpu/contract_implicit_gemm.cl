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

$kernel [ITEMS_X, ITEMS_Y, 1] windows(read STORAGE a, read STORAGE b, write void out,
        windowed geometry${operand_parameters}) {
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
    ${begin_operands}
    // Rows and columns past an edge are read as the last ones and not stored.
    int a_from[A_EACH], b_from[B_COLUMNS];
    ${unroll}
    for (int i = 0; i < A_EACH; i++) a_from[i] = min(row + ACROSS(i, SPAN_ROWS, A_ALONG, 1), m - 1) * (int)g.a_row;
    ${unroll}
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
            ${unroll}
            for (int i = 0; i < A_EACH; i++) {
                const int k = AT(i, SPAN_ROWS, A_ALONG, 1);
                a_next[i] = coming + k < last ? LOAD(a, a_from[i] + steps[k].x) : (REAL)0;
            }
            ${unroll}
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
            ${unroll}
            for (int i = 0; i < A_EACH; i++) a_tile[AT(i, SPAN_ROWS, A_ALONG, 1) * ROW_A + ACROSS(i, SPAN_ROWS, A_ALONG, 1)] = a_next[i];
            ${unroll}
            for (int i = 0; i < B_EACH; i++) b_tile[AT(i, SPAN, B_ALONG, 1) * ROW_B + ACROSS(i, SPAN, B_ALONG, 1)] = b_next[i];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const long base = g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1] + part * g.out_part;
    __global REAL* sum = (__global REAL*)out + base;
    __global OUT_STORAGE* result = (__global OUT_STORAGE*)out + base;
    ${unroll_sums}
    for (int half_ = 0; half_ < 2; half_++) {
        const int from = column + half_ * 4 * ITEMS_X + x * 4;
        int to[4];
        ${unroll_sums}
        for (int j = 0; j < 4; j++)
            to[j] = OUT_LANES == 4 && j > 0 ? to[0] + j : both_offsets(min(from + j, n - 1), g.n_extent, g.out_n, g.out_n).x;
        ${unroll_sums}
        for (int i = 0; i < 4 * QUARTERS; i++) {  // all are finished before the first is stored, so that no read waits for a write
            const int r = min(row + i / 4 * 4 * ITEMS_Y + y * 4 + i % 4, m - 1);
            REAL four[4] = {sums[i][half_].s0, sums[i][half_].s1, sums[i][half_].s2, sums[i][half_].s3};
            ${unroll_sums}
            for (int j = 0; j < 4; j++) four[j] = finished(four[j], r, min(from + j, n - 1), to[j]${operand_arguments});
            sums[i][half_] = (REAL_4)(four[0], four[1], four[2], four[3]);
        }
        ${unroll_sums}
        for (int i = 0; i < 4 * QUARTERS; i++) {
            const int r = row + i / 4 * 4 * ITEMS_Y + y * 4 + i % 4;
            if (r >= m) continue;
#if OUT_LANES == 4
            __global REAL_4* at = (__global REAL_4*)(sum + (to[0] + r * (int)g.out_row));
            if (from < n) *at = g.accumulate ? *at + sums[i][half_] : sums[i][half_];
#else
            const REAL four[4] = {sums[i][half_].s0, sums[i][half_].s1, sums[i][half_].s2, sums[i][half_].s3};
            ${unroll_sums}
            for (int j = 0; j < 4; j++) {
                if (from + j >= n) continue;
                const int at = to[j] + r * (int)g.out_row;
                if (!g.parts) OUT_STORE(four[j], result, at);
                else sum[at] = g.accumulate ? sum[at] + four[j] : four[j];
            }
#endif
        }
    }
}
