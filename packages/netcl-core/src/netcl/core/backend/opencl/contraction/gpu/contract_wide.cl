// Register-tiled GEMM for GPUs, with split-K: out[z][i][j] = sum_k A[z][i][k] * B[z][k][j], A, B and out with one stride for
// each index.
//
// wide   work-group of ITEMS_X x ITEMS_Y: a tile of SPAN_ROWS x SPAN outputs, 8 x 8 per work-item in quarters of 4 x 4, k in
//        steps of DEEP through two tiles of each operand in local memory: one is read while the other is filled
//        (2 * DEEP * (SPAN_ROWS + SPAN + 8) elements). A_LANES and B_LANES elements are loaded at a time, along k
//        (A_ALONG, B_ALONG) or across it, and OUT_LANES are stored, all of 32 bits if they are several. Partial sum s of
//        `splits` goes to `out` + s * out_part.
//
// Offsets within a matrix have 32 bits. Without split-K, sums go through epilogue(sum, operands...) if there are operands.
// Contraction of a*b+c into one rounding is allowed here.

#ifndef DTYPE_FLOAT32
#undef A_LANES
#undef B_LANES
#undef OUT_LANES
#define A_LANES 1
#define B_LANES 1
#define OUT_LANES 1
#endif
#define A_EACH (SPAN_ROWS * DEEP / (ITEMS * A_LANES))
#define B_EACH (SPAN * DEEP / (ITEMS * B_LANES))

#if A_LANES == 4
#define A_PART REAL_4
#define LOAD_A(at) (*(__global const REAL_4*)(a + (at)))
#else
#define A_PART REAL
#define LOAD_A(at) LOAD(a, at)
#endif
#if B_LANES == 4
#define B_PART REAL_4
#define LOAD_B(at) (*(__global const REAL_4*)(b + (at)))
#else
#define B_PART REAL
#define LOAD_B(at) LOAD(b, at)
#endif

// Stores a part of a tile with rows of `width` elements: `lanes` elements along k or across it.
#define KEEP(tile, width, part, k, across, along, lanes) KEEP_AS(tile, width, part, k, across, along, lanes)
#define KEEP_AS(tile, width, part, k, across, along, lanes) KEEP_##along##_##lanes(tile, width, part, k, across)
#define KEEP_0_1(tile, width, part, k, across) tile[(k) * (width) + (across)] = part;
#define KEEP_1_1 KEEP_0_1
#define KEEP_0_4(tile, width, part, k, across) *(__local REAL_4*)(tile + (k) * (width) + (across)) = part;
#define KEEP_1_4(tile, width, part, k, across) \
    tile[(k) * (width) + (across)] = part.s0; tile[((k) + 1) * (width) + (across)] = part.s1; \
    tile[((k) + 2) * (width) + (across)] = part.s2; tile[((k) + 3) * (width) + (across)] = part.s3;

$kernel [ITEMS_X, ITEMS_Y, 1] wide(read STORAGE a, read STORAGE b, write void out, product g, int splits, int split,
        long out_part${operand_parameters}) {
    __local REAL_4 a_tiles[2][DEEP * ROW_A / 4], b_tiles[2][DEEP * ROW_B / 4];
    const int x = get_local_id(0), y = get_local_id(1), item = y * ITEMS_X + x;
    const int m = g.m, n = g.n, row = get_group_id(1) * SPAN_ROWS, column = get_group_id(0) * SPAN;
    const long part = get_global_id(2) % splits, z = get_global_id(2) / splits;
    const long outer = z / g.inner_batch, inner = z % g.inner_batch;
    const int first = part * split, last = min(g.k, (long)first + split);
    a += g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1];
    b += g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1];
    ${begin_operands}
    const int a_k = g.a_k, b_k = g.b_k, out_row = g.out_row, out_n = g.out_n;
    // Rows and columns past an edge are read as the last ones and not stored.
    int a_from[A_EACH], b_from[B_EACH];
    ${unroll}
    for (int i = 0; i < A_EACH; i++)
        a_from[i] = min(row + ACROSS(i, SPAN_ROWS, A_ALONG, A_LANES), m - (A_ALONG ? 1 : A_LANES)) * (int)g.a_row +
                    (first + AT(i, SPAN_ROWS, A_ALONG, A_LANES)) * a_k;
    ${unroll}
    for (int i = 0; i < B_EACH; i++)
        b_from[i] = min(column + ACROSS(i, SPAN, B_ALONG, B_LANES), n - (B_ALONG ? 1 : B_LANES)) * (int)g.b_n +
                    (first + AT(i, SPAN, B_ALONG, B_LANES)) * b_k;
    A_PART a_next[A_EACH];
    B_PART b_next[B_EACH];
    REAL_4 sums[8][2];
    for (int i = 0; i < 8; i++) sums[i][0] = sums[i][1] = 0;
    int slot = 0;
    for (int start = first - DEEP; start < last; start += DEEP, slot ^= 1) {
        const int coming = start + DEEP;
        if (coming < last) {
            ${unroll}
            for (int i = 0; i < A_EACH; i++) {
                a_next[i] = coming + AT(i, SPAN_ROWS, A_ALONG, A_LANES) < last ? LOAD_A(a_from[i]) : (A_PART)0;
                a_from[i] += DEEP * a_k;
            }
            ${unroll}
            for (int i = 0; i < B_EACH; i++) {
                b_next[i] = coming + AT(i, SPAN, B_ALONG, B_LANES) < last ? LOAD_B(b_from[i]) : (B_PART)0;
                b_from[i] += DEEP * b_k;
            }
        }
        if (start >= first) multiply_tiles(a_tiles[slot], b_tiles[slot], x, y, sums);
        if (coming < last) {
            __local REAL* a_tile = (__local REAL*)a_tiles[slot ^ 1];
            __local REAL* b_tile = (__local REAL*)b_tiles[slot ^ 1];
            ${unroll}
            for (int i = 0; i < A_EACH; i++) {
                const int k = AT(i, SPAN_ROWS, A_ALONG, A_LANES), across = ACROSS(i, SPAN_ROWS, A_ALONG, A_LANES);
                KEEP(a_tile, ROW_A, a_next[i], k, across, A_ALONG, A_LANES)
            }
            ${unroll}
            for (int i = 0; i < B_EACH; i++) {
                const int k = AT(i, SPAN, B_ALONG, B_LANES), across = ACROSS(i, SPAN, B_ALONG, B_LANES);
                KEEP(b_tile, ROW_B, b_next[i], k, across, B_ALONG, B_LANES)
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const long base = g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1] + part * out_part;
    __global REAL* sum = (__global REAL*)out + base;
    __global OUT_STORAGE* result = (__global OUT_STORAGE*)out + base;
#ifdef OPERANDS
    if (splits == 1) {  // all are finished before the first is stored, so that no read waits for a write
        ${unroll_sums}
        for (int i = 0; i < 8; i++) {
            const int r = min(row + i / 4 * 4 * ITEMS_Y + y * 4 + i % 4, m - 1);
            ${unroll_sums}
            for (int half_ = 0; half_ < 2; half_++) {
                REAL four[4] = {sums[i][half_].s0, sums[i][half_].s1, sums[i][half_].s2, sums[i][half_].s3};
                ${unroll_sums}
                for (int j = 0; j < 4; j++) {
                    const int c = min(column + half_ * 4 * ITEMS_X + x * 4 + j, n - 1);
                    four[j] = finished(four[j], r, c, c * out_n${operand_arguments});
                }
                sums[i][half_] = (REAL_4)(four[0], four[1], four[2], four[3]);
            }
        }
    }
#endif
    ${unroll_sums}
    for (int i = 0; i < 8; i++) {
        const int r = row + i / 4 * 4 * ITEMS_Y + y * 4 + i % 4;
        if (r >= m) continue;
        ${unroll_sums}
        for (int half_ = 0; half_ < 2; half_++) {
            const int from = column + half_ * 4 * ITEMS_X + x * 4, at = r * out_row + from * out_n;
#if OUT_LANES == 4
            if (from < n) *(__global REAL_4*)(sum + at) = sums[i][half_];
#else
            const REAL four[4] = {sums[i][half_].s0, sums[i][half_].s1, sums[i][half_].s2, sums[i][half_].s3};
            ${unroll_sums}
            for (int j = 0; j < 4; j++) {
                if (from + j >= n) continue;
                if (splits > 1) sum[at + j * out_n] = four[j];
                else OUT_STORE(four[j], result, at + j * out_n);
            }
#endif
        }
    }
}
