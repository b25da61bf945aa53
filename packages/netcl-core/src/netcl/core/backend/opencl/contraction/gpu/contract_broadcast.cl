// GEMM for devices with sub-groups: out[z][i][j] = sum_k A[z][i][k] * B[z][k][j], a stride for each index.
//
// broadcast   work-group of GROUP, each for ROWS rows and GROUP * COLUMNS columns: a sub-group loads as many k of A as
//             it has work-items, one each, and broadcasts them; neither local memory nor barriers, for sub-groups of
//             any size.
//
// Offsets within a matrix have 32 bits. Sums go through epilogue(sum, operands...) if there are operands. Contraction of
// a*b+c into one rounding is allowed here.

#ifdef cl_khr_subgroups
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#endif

$kernel [GROUP, 1, 1] broadcast(read STORAGE a, read STORAGE b, write OUT_STORAGE out, product g${operand_parameters}) {
    const int m = g.m, n = g.n, depth = g.k, row = get_group_id(1) * ROWS;
    const int column = get_group_id(0) * GROUP * COLUMNS + get_local_id(0);
    const long z = get_global_id(2), outer = z / g.inner_batch, inner = z % g.inner_batch;
    a += g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1];
    b += g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1];
    out += g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1];
    ${begin_operands}
    const int a_row = g.a_row, a_k = g.a_k, b_k = g.b_k, b_n = g.b_n, out_row = g.out_row, out_n = g.out_n;
    const int lane = get_sub_group_local_id(), lanes = get_sub_group_size();
    REAL sums[ROWS][COLUMNS], mine[ROWS], of_b[COLUMNS];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) sums[i][j] = 0;
    // All work-items of a sub-group execute all of this: elements beyond an edge are zero.
    for (int start = 0; start < depth; start += lanes) {
        const int ak = start + lane, steps = min(lanes, depth - start);
        for (int i = 0; i < ROWS; i++) mine[i] = ak < depth && row + i < m ? LOAD(a, (row + i) * a_row + ak * a_k) : (REAL)0;
        for (int step = 0; step < steps; step++) {
            for (int j = 0; j < COLUMNS; j++) {
                const int c = column + j * GROUP;
                of_b[j] = c < n ? LOAD(b, c * b_n + (start + step) * b_k) : (REAL)0;
            }
            for (int i = 0; i < ROWS; i++) {
                const REAL of_a = sub_group_broadcast(mine[i], (uint)step);
                for (int j = 0; j < COLUMNS; j++) sums[i][j] += of_a * of_b[j];
            }
        }
    }
    ${unroll_sums}
    for (int i = 0; i < ROWS; i++) {
        if (row + i >= m) continue;
        ${unroll_sums}
        for (int j = 0; j < COLUMNS; j++) {
            const int c = column + j * GROUP, inside = min(c, n - 1);
            const REAL value = finished(sums[i][j], row + i, inside, inside * out_n${operand_arguments});
            if (c < n) OUT_STORE(value, out, (row + i) * out_row + c * out_n);
        }
    }
}
