// Writes the elements with numbers left in `winner` by claim.
__kernel void scatter(__global const element* restrict x, __global const INDEX* restrict indices,
                      __global const int* restrict winner, __global element* restrict out, const indexing g) {
    EACH_ROW {
        for (long c = begin; c < end; c++) {
            const size_t at = row * g.after + c;
            const size_t position = (outer * g.axis + clamped(indices[at], g.axis)) * g.after + c;
            if (winner[position] == i) out[position] = x[at];
        }
    }
}
