// Leaves in `winner` the number of the last index that names each position, the same in any order of the work-items.
$kernel claim(read INDEX indices, write int* winner, write int* flag, int code, indexing g) {
    EACH_ROW {
        for (long c = begin; c < end; c++) {
            const size_t position = checked(indices[row * g.after + c], row * g.after + c, g.axis, flag, code);
            atomic_max(winner + (outer * g.axis + position) * g.after + c, (int)i);
        }
    }
}
