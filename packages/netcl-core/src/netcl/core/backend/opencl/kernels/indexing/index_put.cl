// Writes the rows with numbers left in `winner` by claim.
$kernel put(read element x, read INDEX indices, read int winner, write element out, indexing g) {
    EACH_ROW {
        const size_t position = clamped(indices[i], g.axis);
        if (winner[position] != i) continue;
        __global const element* from = x + row * g.after;
        __global element* to = out + (outer * g.axis + position) * g.after;
        for (long c = begin; c < end; c++) to[c] = from[c];
    }
}
