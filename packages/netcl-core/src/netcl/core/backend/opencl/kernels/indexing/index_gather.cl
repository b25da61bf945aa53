// Copies the elements that the indices name, one index for each.
$kernel gather(read element x, read INDEX indices, write element out, write int* flag, int code, indexing g) {
    EACH_ROW {
        __global const element* from = x + outer * g.axis * g.after;
        for (long c = begin; c < end; c++) {
            const size_t position = checked(indices[row * g.after + c], row * g.after + c, g.axis, flag, code);
            out[row * g.after + c] = from[position * g.after + c];
        }
    }
}
