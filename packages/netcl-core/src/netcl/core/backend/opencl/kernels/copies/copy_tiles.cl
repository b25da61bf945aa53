// Transposing copy of a block for groups with local memory: a group copies one tile of TILE x TILE with its rows along
// the columns of the source, reading along the one and writing along the other. All loads of a work-item are under way
// before the first is stored.
#define EACH ((TILE * TILE + GROUP - 1) / GROUP)

$kernel copy_tiles(read source_element source, write result_element out, copying g) {
    __local element square[TILE][TILE + 1];  // a column more, so that neighbours of a column are in different banks
    const uint tile = get_group_id(0), across = g.counts[1], down = g.counts[0], band = tile / across;
    const long column = (long)(tile - band * across) * TILE, row = (long)(band % down) * TILE;
    uint rest = band / down;
    long from = g.source_offset + row * g.source_stride[4] + column * g.source_stride[5];
    long to = g.out_offset + row * g.out_stride[4] + column * g.out_stride[5];
    for (int d = 3; d >= 0; d--) {
        const uint extent = g.extent[d], quotient = rest / extent, i = rest - quotient * extent;
        rest = quotient;
        from += i * g.source_stride[d];
        to += i * g.out_stride[d];
    }
    const int rows = (int)min((long)TILE, g.extent[4] - row), columns = (int)min((long)TILE, g.extent[5] - column);
    source += from;
    out += to;
    const long row_step = g.source_stride[4], column_step = g.source_stride[5];
    const long out_row_step = g.out_stride[4], out_column_step = g.out_stride[5];
    const int item = get_local_id(0);
    element loaded[EACH];
    for (int k = 0; k < EACH; k++) {
        const int r = (item + k * GROUP) % TILE, c = (item + k * GROUP) / TILE;
        loaded[k] = GET(source, min(r, rows - 1) * row_step + min(c, columns - 1) * column_step);
    }
    for (int k = 0; k < EACH; k++) {
        const int r = (item + k * GROUP) % TILE, c = (item + k * GROUP) / TILE;
        if (TILE * TILE % GROUP == 0 || c < TILE) square[c][r] = loaded[k];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < EACH; k++) {
        const int r = (item + k * GROUP) / TILE, c = (item + k * GROUP) % TILE;
        if (r < rows && c < columns) { PUT(square[c][r], out, r * out_row_step + c * out_column_step) }
    }
}
