// Copies the rows that the indices name.
$kernel take(read element x, read INDEX indices, write element out, write int* flag, int code, indexing g) {
#ifdef ALONE
    if (g.after == 1) {  // single elements, many per work-item
        const size_t begin = get_global_id(1) * g.block, end = min((size_t)(g.before * g.count), (size_t)(begin + g.block));
        for (size_t row = begin; row < end;) {
            const size_t outer = row / g.count, i = row % g.count, run = min((size_t)(g.count - i), end - row);
            __global const element* from = x + outer * g.axis;
            for (size_t k = 0; k < run; k++) {
                long j = indices[i + k];
                if ((ulong)j >= (ulong)g.axis) j = checked(j, i + k, g.axis, flag, code);
                out[row + k] = from[j];
            }
            row += run;
        }
        return;
    }
#endif
    EACH_ROW {
        const size_t position = outer * g.axis + checked(indices[i], i, g.axis, flag, code);
        __global const element* from = x + position * g.after;
        __global element* to = out + row * g.after;
        for (long c = begin; c < end; c++) to[c] = from[c];
    }
}
