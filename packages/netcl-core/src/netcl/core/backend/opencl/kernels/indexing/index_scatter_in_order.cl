// scatter without `winner`: a work-item iterates over all indices in order and writes only the elements of the result
// that it owns.
$kernel scatter_in_order(read element x, read INDEX indices, write element out, write int* flag, int code, indexing g) {
    OWN_ROWS {
        const long count = COUNT;
        __global const element* from = FROM(x);
        __global const INDEX* own = FROM(indices);
        __global element* to = TO(out);
        for (long i = 0; i < count; i++)
            for (long c = begin; c < end; c++) {
                const long row = checked(own[i * g.after + c], (outer * g.count + i) * g.after + c, g.axis, flag, code);
                if (row >= first && row < last) to[row * g.after + c] = from[i * g.after + c];
            }
    }
}
