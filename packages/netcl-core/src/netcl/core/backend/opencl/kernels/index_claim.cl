// Leaves in `winner` the largest place of all indices that name a position, the same in any order of the work-items.
__kernel void claim(__global const INDEX* restrict indices, __global int* winner, __global int* flag, const int code,
                    const indexing g) {
    EACH_ROW {
        for (long c = begin; c < end; c++) {
            const size_t place = checked(indices[row * g.after + c], g.axis, flag, code);
            atomic_max(winner + (outer * g.axis + place) * g.after + c, (int)i);
        }
    }
}
