// Minimal filtering on CPU devices: the transform of the windows of images, for the kernels that read tiles. TILES_MATRIX is
// DATA, B^T d B of images, or GRADIENT, A d A^T of the gradient of an output. Images are zero outside.
//
// Of the WIDTH elements of a window's row, a power of two, which are read at once, WINDOW are taken. WIDTH vectors have one row
// of VECTOR windows; they are transposed after the transform along the columns. transposes.py writes TOGETHER and EACH_COLUMN.

${windows}

#define INTV JOIN(int, VECTOR)
#define MASKED(x, mask) JOIN(as_float, VECTOR)(JOIN(as_int, VECTOR)(x) & (mask))  // PoCL's select takes one element after the other
typedef JOIN(RAW, TAKEN) __attribute__((aligned(sizeof(RAW)))) WINDOW_ROW;

// The windows of VECTOR tiles, in a plane.
typedef struct {
    int top[VECTOR], left[VECTOR], start[VECTOR];
    bool inside[WIDTH];  // of the windows of a vector: true if their rows are in the images
    int lowest, highest;  // range of offsets of rows in the images
} windows;

static inline void find_windows(const tiling* g, place p, windows* of) {
    const int bottom = (int)g->height - 1, width = (int)g->width;
    of->lowest = of->highest = p.start;
    for (int v = 0; v < WIDTH; v++) of->inside[v] = true;
    for (int tile = 0; tile < VECTOR; tile++) {
        of->top[tile] = p.top;
        of->left[tile] = p.left;
        of->start[tile] = p.start;
        for (int part = 0; part < PARTS; part++)
            of->inside[tile / MANY * PARTS + part] &= p.top >= 0 && p.top + WINDOW - 1 <= bottom;
        of->lowest = min(of->lowest, p.start + (clamp(p.top, 0, bottom) - p.top) * width);
        of->highest = max(of->highest, p.start + (clamp(p.top + WINDOW - 1, 0, bottom) - p.top) * width + WIDTH);
        advance(g, &p);
    }
}

#define TILE_OF(m) (v / PARTS * MANY + m)
#define LEFT_OF(m) (JOIN(int, TAKEN))(of->left[TILE_OF(m)] + v % PARTS * TAKEN)
#define TOP_OF(m) (JOIN(int, TAKEN))(of->top[TILE_OF(m)])
#define ROW_INSIDE(m) (*(__global const WINDOW_ROW*)(x + of->start[TILE_OF(m)] + v % PARTS * TAKEN + i * width))
#define ROW_AT_BORDER(m) (*(__global const WINDOW_ROW*)(x + of->start[TILE_OF(m)] + v % PARTS * TAKEN \
    + (clamp(of->top[TILE_OF(m)] + i, 0, bottom) - of->top[TILE_OF(m)]) * width))
#define TWO_OUT(k) two[k][v]
#define ONE_IN(k) one[k]
#define GIVEN(v) two[i][v]
#define KEPT(j, x) column[j] = x;
#define COLUMN_IN(k) column[k]
#define THREE_OUT(k) three[k]

// The tiles of the windows `of` the plane at x: SIDE^2 vectors, `step` elements from one to the next. There are `before` elements of images in
// front of x, `behind` from it on.
static inline void transform_windows(__global const STORAGE* x, const long before, const long behind, const tiling* g,
                                     const windows* of, __global REAL* to, const size_t step) {
    REALV two[SIDE][WIDTH];
    const int bottom = (int)g->height - 1, width = (int)g->width;
    const bool safe = before + of->lowest >= 0 && of->highest <= behind;
    for (int v = 0; v < WIDTH; v++) {
        const INTV at = TOGETHER(INTV, LEFT_OF) + (INTV)(COLUMN_NUMBERS);
        const INTV met = (at >= 0) & (at < width);
        REALV one[WINDOW];
        if (safe && of->inside[v]) {
            _Pragma("unroll") for (int i = 0; i < WINDOW; i++) one[i] = MASKED(WIDEN(TOGETHER(RAWV, ROW_INSIDE)), met);
        }
        else if (safe) {
            const INTV top = TOGETHER(INTV, TOP_OF);
            _Pragma("unroll") for (int i = 0; i < WINDOW; i++)
                one[i] = MASKED(WIDEN(TOGETHER(RAWV, ROW_AT_BORDER)), met & (top + i >= 0) & (top + i <= bottom));
        }
        else for (int i = 0; i < WINDOW; i++) {
            RAWV row;
            for (int lane = 0; lane < VECTOR; lane++) {
                const int tile = TILE_OF(lane / TAKEN), j = v % PARTS * TAKEN + lane % TAKEN;
                const int y = of->top[tile] + i, column = of->left[tile] + j;
                const bool within = y >= 0 && y <= bottom && column >= 0 && column < width;
                ((RAW*)&row)[lane] = within ? RAW_LOAD(x, of->start[tile] + i * width + j) : 0;
            }
            one[i] = WIDEN(row);
        }
        TILES_MATRIX(TWO_OUT, ONE_IN)
    }
    for (int i = 0; i < SIDE; i++) {
        REALV column[WINDOW], three[SIDE];
        EACH_COLUMN(GIVEN, KEPT)
        TILES_MATRIX(THREE_OUT, COLUMN_IN)
        for (int j = 0; j < SIDE; j++) GSTORE(three[j], to + (i * SIDE + j) * step);
    }
}
