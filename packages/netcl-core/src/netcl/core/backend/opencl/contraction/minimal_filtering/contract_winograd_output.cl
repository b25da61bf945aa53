// Minimal filtering on GPUs: A^T m A of products [SIDE^2][plane][tile], through epilogue(sum, operands...) if requested, to
// images; a work-item for each tile of a plane. An operand of the epilogue has one value for a plane.

typedef struct {
    long planes, tiles, across, per_image;
    long height, width, image, offset;
    long finished;
    operand operands[OPERANDS];
} tiling;

$kernel output_tiles(read REAL sums, write STORAGE out, tiling g${operand_parameters}) {
    const uint tile = get_global_id(0), plane = get_global_id(1);
    if (tile >= (uint)g.tiles) return;
    const uint image = tile / (uint)g.per_image, rest = tile - image * (uint)g.per_image;
    const int top = (int)(rest / (uint)g.across) * TILE, left = (int)(rest % (uint)g.across) * TILE;
    const int height = g.height, width = g.width;
    out += g.offset + (long)image * g.image + (long)plane * (height * width);
    const size_t step = (size_t)g.planes * g.tiles;
    sums += (size_t)plane * g.tiles + tile;
    REALV one[SIDE][SIDE], two[TILE][SIDE], three[TILE][TILE];
    _Pragma("unroll") for (int i = 0; i < SIDE; i++)
        _Pragma("unroll") for (int j = 0; j < SIDE; j++) one[i][j] = sums[(i * SIDE + j) * step];
    BOTH(OUTPUT, SIDE, TILE)
    _Pragma("unroll") for (int i = 0; i < TILE; i++)
        _Pragma("unroll") for (int j = 0; j < TILE; j++) {
            const REAL value = g.finished ? epilogue(three[i][j]${operand_values}) : three[i][j];
            if (top + i < height && left + j < width) STORE(value, out, (top + i) * width + left + j);
        }
}
