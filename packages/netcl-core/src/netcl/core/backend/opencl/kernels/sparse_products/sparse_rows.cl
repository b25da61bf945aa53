// Product of a sparse matrix in CSR and a dense one: out[r, c] is the sum over i in [starts[r], starts[r + 1]) of
// values[i] * dense[columns[i], c].
//
// A segment reduction: a work-item owns `block` rows and WIDTH columns, and adds the elements of a row in their order, in
// REAL, so that the bits are the same on every run. WIDTH is 1 where neighbouring work-items read neighbouring columns, more
// on CPUs, which load them as vectors. No local memory. Columns are checked before they come here.

typedef struct {
    long rows, width, across, block;
} sparse;

$kernel sparse_rows(read STORAGE values, read int columns, read int starts, read STORAGE dense, write STORAGE out,
        sparse g) {
    const long at = get_global_id(0), begin = at % g.across * WIDTH, last = min((at / g.across + 1) * g.block, g.rows);
    const int wide = (int)min((long)WIDTH, g.width - begin);
    for (long row = at / g.across * g.block; row < last; row++) {
        REAL sums[WIDTH];
        for (int c = 0; c < WIDTH; c++) sums[c] = 0;
        const int end = starts[row + 1];
        for (int i = starts[row]; i < end; i++) {
            const REAL value = LOAD(values, i);
            const long from = columns[i] * g.width + begin;
            if (wide == WIDTH)
                for (int c = 0; c < WIDTH; c++) sums[c] += value * LOAD(dense, from + c);
            else
                for (int c = 0; c < wide; c++) sums[c] += value * LOAD(dense, from + c);
        }
        for (int c = 0; c < wide; c++) STORE(sums[c], out, row * g.width + begin + c);
    }
}
