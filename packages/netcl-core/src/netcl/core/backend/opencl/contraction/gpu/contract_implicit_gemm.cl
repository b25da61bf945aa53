// Implicit GEMM for GPUs, with split-K.
// out[z][i][j] = sum_k A[z][i][k] * B[z][k][j], indices k and j counting through four levels with
// strides of their own (see contract_cpu.cl), A and B read in place.
//
// windows  work-group of ITEMS_X x ITEMS_Y: a tile of SPAN_ROWS x SPAN outputs, k in steps of DEEP through local memory
//          (DEEP * (SPAN_ROWS + SPAN + 8) elements) while the next step is prefetched to registers. The offsets of rows and
//          columns are computed once; DEEP work-items compute the offsets of a step of k a step ahead. Partial sum s of
//          `splits` goes to `out` + s * out_part.
//
// Offsets within a matrix have 32 bits, divisions too. Without split-K, sums go through epilogue(sum, operands...) if
// there are operands. Contraction of a*b+c into one rounding is allowed here.

#define A_EACH (SPAN_ROWS * DEEP / ITEMS)
#define B_EACH (SPAN * DEEP / ITEMS)

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
    __local REAL_4 a_tile[DEEP * ROW_A / 4], b_tile[DEEP * ROW_B / 4];
    __local int2 steps[2][DEEP];
    __local REAL* a_local = (__local REAL*)a_tile;
    __local REAL* b_local = (__local REAL*)b_tile;
    const windowed g = geometry;
    const int x = get_local_id(0), y = get_local_id(1), item = y * ITEMS_X + x;
    const int m = g.m, n = g.n, row = get_group_id(1) * SPAN_ROWS, column = get_group_id(0) * SPAN;
    const long part = get_global_id(2) % g.splits, z = get_global_id(2) / g.splits;
    const long outer = z / g.inner_batch, inner = z % g.inner_batch;
    const int first = part * g.split, last = min(g.k, (long)first + g.split);
    a += g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1];
    b += g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1];
    ${begin_operands}
    int a_from[A_EACH], b_from[B_EACH];
    for (int i = 0; i < A_EACH; i++) a_from[i] = min(row + ACROSS(i, SPAN_ROWS, A_ALONG, 1), m - 1) * (int)g.a_row;
    for (int i = 0; i < B_EACH; i++)
        b_from[i] = i == 0 || B_ALONG ? both_offsets(min(column + ACROSS(i, SPAN, B_ALONG, 1), n - 1), g.n_extent, g.b_n, g.b_n).x : b_from[0];
    REAL a_next[A_EACH], b_next[B_EACH];
    REAL_4 sums[4 * QUARTERS][2];
    for (int i = 0; i < 4 * QUARTERS; i++) sums[i][0] = sums[i][1] = 0;
    if (item < DEEP) steps[0][item] = both_offsets(min(first + item, last - 1), g.k_extent, g.a_k, g.b_k);
    barrier(CLK_LOCAL_MEM_FENCE);
    int slot = 0;
    for (int start = first - DEEP; start < last; start += DEEP, slot ^= 1) {
        const int coming = start + DEEP;
        if (coming < last) {
            for (int i = 0; i < A_EACH; i++) {
                const int k = AT(i, SPAN_ROWS, A_ALONG, 1);
                a_next[i] = coming + k < last ? LOAD(a, a_from[i] + steps[slot][k].x) : (REAL)0;
            }
            for (int i = 0; i < B_EACH; i++) {
                const int k = AT(i, SPAN, B_ALONG, 1);
                b_next[i] = coming + k < last ? LOAD(b, b_from[i] + steps[slot][k].y) : (REAL)0;
            }
            if (item < DEEP) steps[slot ^ 1][item] = both_offsets(min(coming + DEEP + item, last - 1), g.k_extent, g.a_k, g.b_k);
        }
        if (start >= first) multiply_tiles(a_tile, b_tile, x, y, sums);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (coming < last) {
            for (int i = 0; i < A_EACH; i++) a_local[AT(i, SPAN_ROWS, A_ALONG, 1) * ROW_A + ACROSS(i, SPAN_ROWS, A_ALONG, 1)] = a_next[i];
            for (int i = 0; i < B_EACH; i++) b_local[AT(i, SPAN, B_ALONG, 1) * ROW_B + ACROSS(i, SPAN, B_ALONG, 1)] = b_next[i];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const long base = g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1] + part * g.out_part;
    __global REAL* sum = (__global REAL*)out + base;
    __global STORAGE* result = (__global STORAGE*)out + base;
    ${unroll_sums}
    for (int half_ = 0; half_ < 2; half_++) {
        ${unroll_sums}
        for (int j = 0; j < 4; j++) {
            const int c = column + half_ * 4 * ITEMS_X + x * 4 + j;
            if (c >= n) continue;
            const int to = both_offsets(c, g.n_extent, g.out_n, g.out_n).x;
            REAL values[4 * QUARTERS];
            ${unroll_sums}
            for (int i = 0; i < 4 * QUARTERS; i++) {
                const int r = min(row + i / 4 * 4 * ITEMS_Y + y * 4 + i % 4, m - 1);
                const REAL four[4] = {sums[i][half_].s0, sums[i][half_].s1, sums[i][half_].s2, sums[i][half_].s3};
                values[i] = finished(four[j], r, c, to${operand_arguments});
            }
            ${unroll_sums}
            for (int i = 0; i < 4 * QUARTERS; i++) {
                const int r = row + i / 4 * 4 * ITEMS_Y + y * 4 + i % 4;
                if (r >= m) continue;
                const int at = to + r * (int)g.out_row;
                if (!g.parts) STORE(values[i], result, at);
                else sum[at] = g.accumulate ? sum[at] + values[i] : values[i];
            }
        }
    }
}
