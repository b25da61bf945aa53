// Adds rows of the gradient to the rows of the result that the indices name.
$kernel take_gradient(read STORAGE grad, read INDEX indices, write REAL out, write int* flag, int code, indexing g) {
    OWN_ROWS {
        const long count = COUNT;
        __global const STORAGE* from = FROM(grad);
        __global REAL* to = TO(out);
        CLEAR(to)
        for (long i = 0; i < count; i++) {
            const long row = checked(indices[i], i, g.axis, flag, code);
            if (row >= first && row < last)
                for (long c = begin; c < end; c++) to[row * g.after + c] += LOAD(from, i * g.after + c);
        }
    }
}
