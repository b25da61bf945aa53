// Writes the elements with numbers left in `winner` by claim.
$kernel scatter(read element x, read INDEX indices, read int winner, write element out, indexing g) {
    EACH_ROW {
        for (long c = begin; c < end; c++) {
            const size_t at = row * g.after + c;
            const size_t position = (outer * g.axis + clamped(indices[at], g.axis)) * g.after + c;
            if (winner[position] == i) out[position] = x[at];
        }
    }
}
