// Minimal filtering on GPUs: the tiles of images, [SIDE^2][plane][tile], a work-item for each tile of a plane.
//
// data_tiles      B^T d B of images in tiles of SIDE x SIDE that overlap by two; zeros outside
// gradient_tiles  A d A^T of the gradient of an output in tiles of TILE x TILE
//
// Adjacent work-items have adjacent tiles, so that stores are coalesced.

typedef struct {
    long planes, tiles, across, per_image;  // tiles of a row, of an image
    long height, width, image, offset;      // of a plane; elements from an image to the next; of the first
    long down, right;                       // zeros before the first row and column
} tiling;

$kernel TILES_KERNEL(read STORAGE x, write REAL tiles, tiling g) {
    const uint tile = get_global_id(0), plane = get_global_id(1);
    if (tile >= (uint)g.tiles) return;
    const uint image = tile / (uint)g.per_image, rest = tile - image * (uint)g.per_image;
    const int top = (int)(rest / (uint)g.across) * TILE - (int)g.down, left = (int)(rest % (uint)g.across) * TILE - (int)g.right;
    const int height = g.height, width = g.width;
    x += g.offset + (long)image * g.image + (long)plane * (height * width);
    REALV one[WINDOW][WINDOW], two[SIDE][WINDOW], three[SIDE][SIDE];
    _Pragma("unroll") for (int i = 0; i < WINDOW; i++)
        _Pragma("unroll") for (int j = 0; j < WINDOW; j++) {
            const bool inside = (uint)(top + i) < (uint)height && (uint)(left + j) < (uint)width;
            one[i][j] = inside ? LOAD(x, (top + i) * width + left + j) : (REAL)0;
        }
    BOTH(TILES_MATRIX, WINDOW, SIDE)
    const size_t step = (size_t)g.planes * g.tiles;
    tiles += (size_t)plane * g.tiles + tile;
    _Pragma("unroll") for (int i = 0; i < SIDE; i++)
        _Pragma("unroll") for (int j = 0; j < SIDE; j++) tiles[(i * SIDE + j) * step] = three[i][j];
}
