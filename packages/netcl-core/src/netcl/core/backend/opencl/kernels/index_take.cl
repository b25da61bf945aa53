// Copies the rows that the indices name.
__kernel void take(__global const element* restrict x, __global const INDEX* restrict indices, __global element* restrict out,
                   __global int* flag, const int code, const indexing g) {
    EACH_ROW {
        const size_t position = outer * g.axis + checked(indices[i], g.axis, flag, code);
        __global const element* from = x + position * g.after;
        __global element* to = out + row * g.after;
        for (long c = begin; c < end; c++) to[c] = from[c];
    }
}
