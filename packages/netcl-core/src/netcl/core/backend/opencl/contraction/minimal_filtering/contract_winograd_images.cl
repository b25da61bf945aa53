// Minimal filtering on CPU devices in one launch, from images to images. A work-item takes `blocks` blocks of COLUMNS tiles, one
// after the other, and keeps their tiles in scratch that stays in its cache: of all planes [SIDE^2][plane][COLUMNS], then for
// BLOCK_ROWS tiles of rows at a time the sums [SIDE^2][row][COLUMNS], from which it computes outputs, through
// epilogue(sum, operands...) if requested. `panels` are of weight_tiles. Sums have the order of contract_cpu.cl.
// Contraction of a*b+c into one rounding is allowed here.

typedef struct {
    tiling images, outputs;
    long blocks, scratch;               // of a work-item: blocks, elements of scratch
    long panel, product;                // elements of a tile of rows of the weights, of a product
    long data_product, sums_product;    // elements of a product in scratch
    long finished;
    operand operands[OPERANDS];
} filtering;

#define A_AT(p, i) p[i]
#define PANEL_ROW(i) __global const REAL* a##i = panel + i;

$kernel LOOPS filter_images(read STORAGE x, read REAL panels, write STORAGE out, write REAL scratch,
        filtering geometry${operand_parameters}) {
    const filtering all = geometry;
    const tiling g = all.images, o = all.outputs;
    const long ins = g.planes, tiles = (o.planes + ROWS - 1) / ROWS;
    __global REAL* data = scratch + get_global_id(0) * all.scratch;
    __global REAL* sums = data + SIDE * SIDE * all.data_product;
    const long first = get_global_id(0) * all.blocks, last = min(first + all.blocks, (g.tiles + COLUMNS - 1) / COLUMNS);
    for (long block = first; block < last; block++) {
        windows of[VECTORS];
        targets to[VECTORS];
        for (int v = 0; v < VECTORS; v++) {
            const uint tile = block * COLUMNS + v * VECTOR;
            find_windows(&g, place_of(&g, min(tile, (uint)g.tiles - 1)), of + v);
            find_targets(&o, tile, to + v);
        }
        for (long plane = 0; plane < ins; plane++) {
            const long at = plane * g.plane;
            for (int v = 0; v < VECTORS; v++)
                transform_windows(x + at, at, g.length - at, &g, of + v, data + plane * COLUMNS + v * VECTOR, all.data_product);
        }
        for (long tile = 0; tile < tiles; tile += BLOCK_ROWS) {
            const long many = min((long)BLOCK_ROWS, tiles - tile);
            for (long product = 0; product < SIDE * SIDE; product++)
                for (long t = 0; t < many; t++) {
                    __global const REAL* panel = panels + product * all.product + (tile + t) * all.panel;
                    EACH_ROW(PANEL_ROW)
                    __global const REALV* bp = (__global const REALV*)(data + product * all.data_product);
                    __global REALV* s = (__global REALV*)(sums + product * all.sums_product + t * ROWS * COLUMNS);
                    SUM_PRODUCTS(ins, ROWS, true)
                }
            const long rows = min(many * ROWS, o.planes - tile * ROWS);
            for (long row = 0; row < rows; row++) {
                const long plane = tile * ROWS + row;
                for (int v = 0; v < VECTORS; v++) {
                    __global const REAL* at = sums + row * COLUMNS + v * VECTOR;
                    REALV one[SIDE][SIDE], two[TILE][SIDE], three[TILE][TILE];
                    for (int i = 0; i < SIDE; i++)
                        for (int j = 0; j < SIDE; j++) one[i][j] = GLOAD(at + (i * SIDE + j) * all.sums_product);
                    BOTH(OUTPUT, SIDE, TILE)
                    if (all.finished)
                        for (int i = 0; i < TILE; i++)
                            for (int j = 0; j < TILE; j++) three[i][j] = epilogue(three[i][j]${operand_values});
                    store_tiles(three, to + v, out + plane * o.plane, (int)o.width);
                }
            }
        }
    }
}
