// GEMV and skinny matrix products for GPUs, with split-K.
// out[z][i][j] = sum_k A[z][i][k] * B[z][k][j], one stride for each index.
//
// slices  work-group of GROUP: ROWS rows times COLUMNS columns; each column is summed by GROUP / COLUMNS work-items, each
//         a slice of k, which are then added in local memory (ROWS * GROUP elements), always in the same order. Loads are
//         coalesced: along k if that is contiguous in B (ALONG), else along the columns. Partial sum s of `splits` goes to
//         `out` + s * out_part.
//
// Rows past the end repeat the last one and are not written. Offsets within a matrix have 32 bits. Without split-K, sums go
// through epilogue(sum, operands...) if there are operands. Contraction of a*b+c into one rounding is allowed here.

#define SLICES (GROUP / COLUMNS)
#if ALONG
#define COLUMN_OF(item) ((item) / SLICES)
#define SLICE_OF(item) ((item) % SLICES)
#define NEXT_SLICE 1
#else
#define COLUMN_OF(item) ((item) % COLUMNS)
#define SLICE_OF(item) ((item) / COLUMNS)
#define NEXT_SLICE COLUMNS
#endif

$kernel [GROUP, 1, 1] slices(read STORAGE a, read STORAGE b, write void out, product g, int splits, int split,
        long out_part${operand_parameters}) {
    __local REAL shares[ROWS][GROUP];
    const int item = get_local_id(0), slice = SLICE_OF(item);
    const int column = get_group_id(0) * COLUMNS + COLUMN_OF(item), row = get_group_id(1) * ROWS, n = g.n;
    const long part = get_group_id(2) % splits, z = get_group_id(2) / splits;
    const long outer = z / g.inner_batch, inner = z % g.inner_batch;
    const int first = part * split, last = min(g.k, (long)first + split), a_k = g.a_k, b_k = g.b_k;
    a += g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1];
    b += g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1] + min(column, n - 1) * (int)g.b_n;
    int a_from[ROWS];
    REAL sums[ROWS];
    for (int i = 0; i < ROWS; i++) {
        a_from[i] = min(row + i, (int)g.m - 1) * (int)g.a_row;
        sums[i] = 0;
    }
    ${unroll_by_4}
    for (int k = first + slice; k < last; k += SLICES) {
        const REAL of_b = LOAD(b, k * b_k);
        for (int i = 0; i < ROWS; i++) sums[i] += LOAD(a, a_from[i] + k * a_k) * of_b;
    }
    for (int i = 0; i < ROWS; i++) shares[i][item] = sums[i];
    for (int left = SLICES / 2; left > 0; left /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (slice < left)
            for (int i = 0; i < ROWS; i++) shares[i][item] += shares[i][item + left * NEXT_SLICE];
    }
    if (slice > 0 || column >= n) return;
    const long base = g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1];
    const int to = column * (int)g.out_n;
    ${begin_operands}
    for (int i = 0; i < ROWS && row + i < (int)g.m; i++) {
        const long at = base + to + (row + i) * (int)g.out_row;
        if (splits > 1) ((__global REAL*)out)[part * out_part + at] = shares[i][item];
        else OUT_STORE(finished(shares[i][item], row + i, column, to${operand_arguments}), (__global OUT_STORAGE*)out, at);
    }
}
