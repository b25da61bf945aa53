// Convolution with kernels of 3 x 3, stride 1, by minimal filtering for CPU devices. A tile of TILE x TILE outputs becomes
// SIDE x SIDE = (TILE + 2)^2 products, each the element of one of as many matrix products, which contract_cpu.cl computes in
// between. winograd_matrices.cl has the transforms, contract_winograd_windows.cl the kernels that read images.
//
// weight_tiles    panels of rows of G w G^T, [SIDE^2][tile of rows][column][ROWS]
// output_tiles    A^T m A, through epilogue(sum, operands...) if requested, to the images
// weight_sums     G^T u G: the gradient of the weights from its [SIDE^2][element]
//
// Contraction of a*b+c into one rounding is allowed here. transposes.py writes TOGETHER, EACH_COLUMN and TURN_.

${windows}

typedef struct {
    tiling tiles;
    long finished;
    operand operands[OPERANDS];
} outputs;

typedef struct {
    long rows, columns, panel, step;  // step: elements from a product to the next
    long each, row_step, column_step, offset, flipped;
} weights;

#define RUN 8        // vectors of a panel
typedef JOIN(RAW, TAKEN) __attribute__((aligned(sizeof(RAW)))) TAPS;

#define ROW_OF(m) (*(__global const TAPS*)(w + from[v / PARTS * MANY + m] + v % PARTS * TAKEN))
#define GIVEN(v) given[v]
#define TAP(j, x) taps[j] = x;

// A work-item takes `each` vectors of the panels of ROW_TILES tiles of rows, RUN at a time.
$kernel LOOPS weight_tiles(read STORAGE w, write REAL panels, weights g) {
    const size_t tiles = (g.rows + ROWS - 1) / ROWS, groups = (tiles + ROW_TILES - 1) / ROW_TILES;
    const size_t tile_first = get_global_id(0) % groups * ROW_TILES, tile_last = min(tiles, tile_first + ROW_TILES);
    const size_t begin = get_global_id(0) / groups * g.each * VECTOR, end = min((size_t)g.panel, begin + g.each * VECTOR);
    w += g.offset;
    for (size_t run = begin; run < end; run += RUN * VECTOR)
        for (size_t tile = tile_first; tile < tile_last; tile++)
            for (size_t first = run; first < min(end, run + RUN * VECTOR); first += VECTOR) {
                size_t from[VECTOR];
                for (int i = 0; i < VECTOR; i++) {
                    const uint column = min((uint)(first + i) / ROWS, (uint)(g.columns - 1));
                    const uint row = min((uint)tile * ROWS + (uint)(first + i) % ROWS, (uint)(g.rows - 1));
                    from[i] = row * g.row_step + column * g.column_step;
                }
                REALV given[WIDTH], taps[9], one[3][3], two[SIDE][3], three[SIDE][SIDE];
                _Pragma("unroll") for (int v = 0; v < WIDTH; v++) given[v] = WIDEN(TOGETHER(RAWV, ROW_OF));
                EACH_COLUMN(GIVEN, TAP)
                taps[8] = GATHER(w + 8, from);
                for (int i = 0; i < 9; i++) one[i / 3][i % 3] = taps[g.flipped ? 8 - i : i];
                BOTH(WEIGHT, 3, SIDE)
                __global REAL* to = panels + tile * g.panel + first;
                for (int i = 0; i < SIDE; i++)
                    for (int j = 0; j < SIDE; j++) GSTORE(three[i][j], to + (i * SIDE + j) * g.step);
            }
}

// A work-item takes `each` planes of `span` vectors of tiles, and computes their places once.
$kernel LOOPS output_tiles(read REAL sums, write STORAGE out, outputs geometry${operand_parameters}) {
    const outputs all = geometry;
    const tiling g = all.tiles;
    const size_t spans = (g.stride + g.span * VECTOR - 1) / (g.span * VECTOR), span = get_global_id(0) % spans;
    const size_t first = get_global_id(0) / spans * g.each, last = min((size_t)g.planes, (size_t)(first + g.each));
    const int count = min(g.span, g.stride / VECTOR - (long)span * g.span);
    targets of[SPAN];
    for (int i = 0; i < count; i++) find_targets(&g, (span * g.span + i) * VECTOR, of + i);
    for (size_t plane = first; plane < last; plane++)
        for (int n = 0; n < count; n++) {
            const targets* to = of + n;
            __global STORAGE* image = out + g.offset + plane * g.plane;
            __global const REAL* at = sums + plane * g.stride + (span * g.span + n) * VECTOR;
            REALV one[SIDE][SIDE], two[TILE][SIDE], three[TILE][TILE];
            for (int i = 0; i < SIDE; i++)
                for (int j = 0; j < SIDE; j++) one[i][j] = GLOAD(at + (i * SIDE + j) * g.product);
            BOTH(OUTPUT, SIDE, TILE)
            if (all.finished)
                for (int i = 0; i < TILE; i++)
                    for (int j = 0; j < TILE; j++) three[i][j] = epilogue(three[i][j]${operand_values});
            store_tiles(three, to, image, (int)g.width);
        }
}

static inline REALV first_of(__global const REAL* x, const int count) {
    REALV found = 0;
    for (int lane = 0; lane < count; lane++) ((REAL*)&found)[lane] = x[lane];
    return found;
}

$kernel LOOPS weight_sums(read REAL sums, write STORAGE out, long size, long step, long items, long offset) {
    out += offset;
    for (size_t first = get_global_id(0) * VECTOR; first < (size_t)size; first += items * VECTOR) {
        const int count = min((size_t)VECTOR, (size_t)size - first);
        REALV one[SIDE][SIDE], two[3][SIDE], three[3][3];
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++) {
                __global const REAL* at = sums + (i * SIDE + j) * step + first;
                one[i][j] = count == VECTOR ? GLOAD(at) : first_of(at, count);
            }
        BOTH(SUMS, SIDE, 3)
        store_taps(three, out + first * 9, count);
    }
}
