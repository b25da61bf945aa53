// put without `winner`: a work-item iterates over all indices in order and writes only the rows of the result that it
// owns.
$kernel put_in_order(read element x, read INDEX indices, write element out, write int* flag, int code, indexing g) {
    OWN_ROWS {
        const long count = COUNT;
        __global const element* from = FROM(x);
        __global element* to = TO(out);
        for (long i = 0; i < count; i++) {
            const long row = checked(indices[i], i, g.axis, flag, code);
            if (row >= first && row < last)
                for (long c = begin; c < end; c++) to[row * g.after + c] = from[i * g.after + c];
        }
    }
}
