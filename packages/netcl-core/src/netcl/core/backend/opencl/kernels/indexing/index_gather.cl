// Copies the elements that the indices name, one index for each.
__kernel void gather(__global const element* restrict x, __global const INDEX* restrict indices,
                     __global element* restrict out, __global int* flag, const int code, const indexing g) {
    EACH_ROW {
        __global const element* from = x + outer * g.axis * g.after;
        for (long c = begin; c < end; c++) {
            const size_t position = checked(indices[row * g.after + c], row * g.after + c, g.axis, flag, code);
            out[row * g.after + c] = from[position * g.after + c];
        }
    }
}
