// Adds elements of the gradient to the elements of the result that the indices name, one index for each.
$kernel gather_gradient(read STORAGE grad, read INDEX indices, write REAL out, write int* flag, int code, indexing g) {
    OWN_ROWS {
        const long count = COUNT;
        __global const STORAGE* from = FROM(grad);
        __global const INDEX* own = FROM(indices);
        __global REAL* to = TO(out);
        CLEAR(to)
        for (long i = 0; i < count; i++)
            for (long c = begin; c < end; c++) {
                const long row = checked(own[i * g.after + c], (outer * g.count + i) * g.after + c, g.axis, flag, code);
                if (row >= first && row < last) to[row * g.after + c] += LOAD(from, i * g.after + c);
            }
    }
}
