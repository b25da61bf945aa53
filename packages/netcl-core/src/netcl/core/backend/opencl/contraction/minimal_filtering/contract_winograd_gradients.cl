// Minimal filtering on CPU devices: the gradients of weights from tiles in one launch, for few tiles. A work-item takes COLUMNS
// columns, the planes of `data`, and `each` tiles of rows, the planes of `grads`. It transposes its rows of `data` to
// [SIDE^2][tile][COLUMNS] in scratch that stays in its cache, and computes for one tile of rows after the other the sums
// [SIDE^2][row][COLUMNS], contract_cpu.cl's in the same order, and from them the gradients.
// Contraction of a*b+c into one rounding is allowed here.

typedef struct {
    long rows, columns, tiles, stride;  // elements of a row of tiles
    long each, scratch;
    long rows_product, columns_product, strip_product, sums_product;  // elements from a product to the next
} gradients;

#define A_AT(p, i) p[i]
#define TILES_OF_ROW(i) __global const REAL* a##i = ap + min((long)i, rows - 1) * g.stride;
#define FROM_COLUMN(i) GLOAD(data + product * g.columns_product + min(column + v * VECTOR + i, g.columns - 1) * g.stride + k)
#define TO_STRIP(i, x) GSTORE(x, strip + product * g.strip_product + (k + i) * COLUMNS + v * VECTOR);

$kernel LOOPS filter_gradients(read REAL grads, read REAL data, write STORAGE out, write REAL scratch,
        gradients geometry) {
    const gradients g = geometry;
    const long strips = (g.columns + COLUMNS - 1) / COLUMNS, column = get_global_id(0) % strips * COLUMNS;
    const long tiles = (g.rows + ROWS - 1) / ROWS, first = get_global_id(0) / strips * g.each, last = min(tiles, first + g.each);
    __global REAL* strip = scratch + get_global_id(0) * g.scratch;
    __global REAL* sums = strip + SIDE * SIDE * g.strip_product;
    for (long product = 0; product < SIDE * SIDE; product++)
        for (long k = 0; k < g.stride; k += VECTOR)
            for (int v = 0; v < VECTORS; v++) JOIN(TURN_, VECTOR)(FROM_COLUMN, TO_STRIP)
    for (long tile = first; tile < last; tile++) {
        const long rows = min((long)ROWS, g.rows - tile * ROWS);
        for (long product = 0; product < SIDE * SIDE; product++) {
            __global const REAL* ap = grads + product * g.rows_product + tile * ROWS * g.stride;
            EACH_ROW(TILES_OF_ROW)
            __global const REALV* bp = (__global const REALV*)(strip + product * g.strip_product);
            __global REALV* s = (__global REALV*)(sums + product * g.sums_product);
            SUM_PRODUCTS(g.tiles, 1, true)
        }
        for (long row = 0; row < rows; row++)
            for (int v = 0; v < VECTORS && column + v * VECTOR < g.columns; v++) {
                REALV one[SIDE][SIDE], two[3][SIDE], three[3][3];
                for (int i = 0; i < SIDE; i++)
                    for (int j = 0; j < SIDE; j++)
                        one[i][j] = GLOAD(sums + (i * SIDE + j) * g.sums_product + row * COLUMNS + v * VECTOR);
                BOTH(SUMS, SIDE, 3)
                const long at = (tile * ROWS + row) * g.columns + column + v * VECTOR;
                store_taps(three, out + at * 9, min((long)VECTOR, g.columns - column - v * VECTOR));
            }
    }
}
