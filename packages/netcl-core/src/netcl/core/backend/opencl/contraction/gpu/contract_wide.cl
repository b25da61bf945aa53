// Register-tiled GEMM for GPUs: out[z][i][j] = sum_k A[z][i][k] * B[z][k][j], A, B and out with one stride for each index.
//
// wide   work-group of 16 x 16: a tile of 128 x 128 outputs, 8 x 8 per work-item in quarters of 4 x 4, k in steps of DEEP
//        through local memory (2 * DEEP * 132 elements) while the next step is prefetched to registers.
//
// Offsets within a matrix have 32 bits. Sums go through epilogue(sum, operands...) if there are operands. Contraction of
// a*b+c into one rounding is allowed here.

#define EACH (SPAN * DEEP / 256)

$kernel [16, 16, 1] wide(read STORAGE a, read STORAGE b, write STORAGE out, product g${operand_parameters}) {
    __local REAL_4 a_tile[DEEP * ROW_A / 4], b_tile[DEEP * ROW_B / 4];
    __local REAL* a_local = (__local REAL*)a_tile;
    __local REAL* b_local = (__local REAL*)b_tile;
    const int x = get_local_id(0), y = get_local_id(1), item = y * 16 + x;
    const int m = g.m, n = g.n, depth = g.k, row = get_group_id(1) * SPAN, column = get_group_id(0) * SPAN;
    const long z = get_global_id(2), outer = z / g.inner_batch, inner = z % g.inner_batch;
    a += g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1];
    b += g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1];
    out += g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1];
    ${begin_operands}
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
    ${unroll_sums}
    for (int i = 0; i < 8; i++) {
        const int r = row + i / 4 * 64 + y * 4 + i % 4;
        if (r >= m) continue;
        ${unroll_sums}
        for (int half_ = 0; half_ < 2; half_++) {
            REAL four[4] = {sums[i][half_].s0, sums[i][half_].s1, sums[i][half_].s2, sums[i][half_].s3};
            ${unroll_sums}
            for (int j = 0; j < 4; j++) {
                const int c = min(column + half_ * 64 + x * 4 + j, n - 1);
                four[j] = finished(four[j], r, c, c * out_n${operand_arguments});
            }
            ${unroll_sums}
            for (int j = 0; j < 4; j++) {
                const int c = column + half_ * 64 + x * 4 + j;
                if (c < n) STORE(four[j], out, r * out_row + c * out_n);
            }
        }
    }
}
