// Writes the rows with numbers left in `winner` by claim.
__kernel void put(__global const element* restrict x, __global const INDEX* restrict indices,
                  __global const int* restrict winner, __global element* restrict out, const indexing g) {
    EACH_ROW {
        const size_t position = clamped(indices[i], g.axis);
        if (winner[position] != i) continue;
        __global const element* from = x + row * g.after;
        __global element* to = out + (outer * g.axis + position) * g.after;
        for (long c = begin; c < end; c++) to[c] = from[c];
    }
}
