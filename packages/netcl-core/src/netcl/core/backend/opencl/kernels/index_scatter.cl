// Writes the elements whose place claim left in `winner`.
__kernel void scatter(__global const element* restrict x, __global const INDEX* restrict indices,
                      __global const int* restrict winner, __global element* restrict out, const indexing g) {
    EACH_ROW {
        for (long c = begin; c < end; c++) {
            const size_t at = row * g.after + c;
            const size_t place = (outer * g.axis + clamped(indices[at], g.axis)) * g.after + c;
            if (winner[place] == i) out[place] = x[at];
        }
    }
}
