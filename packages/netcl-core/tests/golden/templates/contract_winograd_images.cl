// contract_winograd_images/cpu_float32_2_added
#define DTYPE_FLOAT32 1
#define VECTOR 8
#define VECTORS 2
#define TILE 2
#define ROWS 6
#define OPERANDS 1
#define TILES_MATRIX DATA
#define WINDOW 4
#define BLOCK_ROWS 2
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
#define REALV float8
typedef float8 __attribute__((aligned(4))) PACKED;
#define GLOAD(p) (*(__global const PACKED*)(p))
#define GSTORE(x, p) (*(__global PACKED*)(p) = (x))
#define RLOAD(p) vload8(0, (p))
#define RSTORE(x, p) vstore8((x), 0, (p))
#define VLOAD(p) GLOAD(p)
#define VSTORE(x, p) GSTORE((x), (p))
#define RAW float
#define RAWV float8
#define WIDEN(v) (v)
#define NARROW(x) (x)
#define RAW_LOAD(p, i) ((p)[i])
#define RAW_STORE(x, p, i) ((p)[i] = (x))
#define GATHER(p, from) WIDEN((RAWV)(RAW_LOAD(p, (from)[0]), RAW_LOAD(p, (from)[1]), RAW_LOAD(p, (from)[2]), RAW_LOAD(p, (from)[3]), RAW_LOAD(p, (from)[4]), RAW_LOAD(p, (from)[5]), RAW_LOAD(p, (from)[6]), RAW_LOAD(p, (from)[7])))
// Epilogue fusion: a kernel passes its sums through epilogue(sum, operands...) before it stores them. The operands are
// OPERANDS pointers e1, e2, .. and their layouts, at least one. fused_epilogue.py writes the part `epilogue`, the declaration of the
// function, which follows the kernels in the text, or the addition of one operand.

static inline REALV epilogue(const REALV sum, const REALV operand) { return sum + operand; }

typedef struct {
    long offset, row;
    long batch[2];
    long along;  // of a row: 0 the same value, 1 one for each column, 2 as the result
} operand;

// The matrices of minimal filtering (Winograd 1980; Lavin and Gray 2016): F(TILE x TILE, 3 x 3), TILE 2 or 4, for the kernels
// that transform tiles of type REALV: B^T d B of data, G w G^T of weights, A^T m A of products, and their transposes for gradients.

#define SIDE (TILE + 2)

// The products with the matrices along one direction, from d(0), d(1), ... to r(0), r(1), ...
#if TILE == 4
// Of polynomials at 0, -A, A, -B, B and infinity. With 1 and 2 for A and B rounding errors are twice as large; these two
// are the best of a search in steps of 1/16, and their multipliers below have no rounding error of their own
// except the divisions.
#define A ((REAL)0.625)
#define B ((REAL)1.5)
#define AA (A * A)
#define BB (B * B)
#define AT_A (2 * AA * (AA - BB))  // the product of a point's differences from the others
#define AT_B (2 * BB * (BB - AA))
#define DATA(r, d) r(0) = AA * BB * d(0) - (AA + BB) * d(2) + d(4); r(5) = AA * BB * d(1) - (AA + BB) * d(3) + d(5); \
    { const REALV even = d(4) - BB * d(2), odd = A * (d(3) - BB * d(1)); r(1) = even + odd; r(2) = even - odd; } \
    { const REALV even = d(4) - AA * d(2), odd = B * (d(3) - AA * d(1)); r(3) = even + odd; r(4) = even - odd; }
#define WEIGHT(r, d) r(0) = d(0) * (1 / (AA * BB)); r(5) = d(2); \
    { const REALV even = (d(0) + AA * d(2)) * (1 / AT_A), odd = d(1) * (A / AT_A); r(1) = even + odd; r(2) = even - odd; } \
    { const REALV even = (d(0) + BB * d(2)) * (1 / AT_B), odd = d(1) * (B / AT_B); r(3) = even + odd; r(4) = even - odd; }
#define OUTPUT(r, d) { const REALV a = d(1) + d(2), b = A * (d(1) - d(2)), c = d(3) + d(4), e = B * (d(3) - d(4)); \
    r(0) = d(0) + a + c; r(1) = b + e; r(2) = AA * a + BB * c; r(3) = AA * b + BB * e + d(5); }
#define GRADIENT(r, d) r(0) = d(0); r(5) = d(3); \
    { const REALV even = d(0) + AA * d(2), odd = A * (d(1) + AA * d(3)); r(1) = even + odd; r(2) = even - odd; } \
    { const REALV even = d(0) + BB * d(2), odd = B * (d(1) + BB * d(3)); r(3) = even + odd; r(4) = even - odd; }
#define SUMS(r, d) { const REALV a = (d(1) + d(2)) * (1 / AT_A), b = (d(1) - d(2)) * (A / AT_A); \
    const REALV c = (d(3) + d(4)) * (1 / AT_B), e = (d(3) - d(4)) * (B / AT_B); \
    r(0) = d(0) * (1 / (AA * BB)) + a + c; r(1) = b + e; r(2) = AA * a + BB * c + d(5); }
#else
#define DATA(r, d) r(0) = d(0) - d(2); r(1) = d(1) + d(2); r(2) = d(2) - d(1); r(3) = d(1) - d(3);
#define WEIGHT(r, d) r(0) = d(0); r(3) = d(2); \
    { const REALV even = (d(0) + d(2)) / 2, odd = d(1) / 2; r(1) = even + odd; r(2) = even - odd; }
#define OUTPUT(r, d) r(0) = d(0) + d(1) + d(2); r(1) = d(1) - d(2) - d(3);
#define GRADIENT(r, d) r(0) = d(0); r(1) = d(0) + d(1); r(2) = d(0) - d(1); r(3) = -d(1);
#define SUMS(r, d) { const REALV a = (d(1) + d(2)) / 2; r(0) = d(0) + a; r(1) = (d(1) - d(2)) / 2; r(2) = a + d(3); }
#endif

// From array[i][j], `rows` x `columns`, to array `two`: along the columns (i counts), then along the rows.
#define DOWN_IN(k) one[k][j]
#define DOWN_OUT(k) two[k][j]
#define ACROSS_IN(k) two[i][k]
#define ACROSS_OUT(k) three[i][k]
#define BOTH(F, columns, rows) \
    _Pragma("unroll") for (int j = 0; j < columns; j++) { F(DOWN_OUT, DOWN_IN) } \
    _Pragma("unroll") for (int i = 0; i < rows; i++) { F(ACROSS_OUT, ACROSS_IN) }

// The places of the tiles of minimal filtering in images, for the kernels of CPU devices.

typedef struct {
    long planes, tiles, stride, product;  // of tiles: elements from a plane to the next, from a product
    long span, each;                      // of a work-item: vectors of tiles, planes
    long across, down;                    // tiles of a row, of a column of an image
    long plane, image, offset;            // of images: elements from one to the next; of the first
    long height, width, length;           // length: elements of all images
    long low[2];                          // rows and columns of zeros before an image
} tiling;

// A tile: its first element in its image and, from the first image on, in a plane.
typedef struct {
    int tile, top, left, start;
} place;

static inline place place_of(const tiling* g, const uint tile) {
    const uint row = tile / (uint)g->across, image = row / (uint)g->down;
    place p;
    p.tile = tile;
    p.top = (int)((row - image * (uint)g->down) * TILE) - (int)g->low[0];
    p.left = (int)((tile - row * (uint)g->across) * TILE) - (int)g->low[1];
    p.start = (int)image * (int)g->image + p.top * (int)g->width + p.left;
    return p;
}

// To the next tile; the last one is repeated.
static inline void advance(const tiling* g, place* p) {
    if (p->tile + 1 >= (int)g->tiles) return;
    p->tile++;
    p->left += TILE;
    p->start += TILE;
    if (p->left < (int)(g->across * TILE - g->low[1])) return;
    p->left -= (int)g->across * TILE;
    p->top += TILE;
    p->start += TILE * (int)(g->width - g->across);
    if (p->top < (int)(g->down * TILE - g->low[0])) return;
    p->top -= (int)g->down * TILE;
    p->start += (int)(g->image - g->down * TILE * g->width);
}
// Minimal filtering on CPU devices: the transform of the windows of images, for the kernels that read tiles. TILES_MATRIX is
// DATA, B^T d B of images, or GRADIENT, A d A^T of the gradient of an output. Images are zero outside.
//
// Of the WIDTH elements of a window's row, a power of two, which are read at once, WINDOW are taken. WIDTH vectors have one row
// of VECTOR windows; they are transposed after the transform along the columns. transposes.py writes TOGETHER and EACH_COLUMN.

#define WIDTH 4
#define TAKEN 4
#define MANY 2
#define PARTS 1
#ifndef NO_SHUFFLES
#define TOGETHER(type, ROW) (type)(ROW(0), ROW(1))
#else
#define TOGETHER(type, ROW) (type)((ROW(0)).s0, (ROW(0)).s1, (ROW(0)).s2, (ROW(0)).s3, (ROW(1)).s0, (ROW(1)).s1, (ROW(1)).s2, (ROW(1)).s3)
#endif
#define COLUMN_NUMBERS 0, 1, 2, 3, 0, 1, 2, 3
#if defined(__clang__) && !defined(NO_SHUFFLES)
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#else
#define EVEN(a, b) (REALV)((a).s0, (a).s2, (a).s4, (a).s6, (b).s0, (b).s2, (b).s4, (b).s6)
#endif
#if defined(__clang__) && !defined(NO_SHUFFLES)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#else
#define ODD(a, b) (REALV)((a).s1, (a).s3, (a).s5, (a).s7, (b).s1, (b).s3, (b).s5, (b).s7)
#endif
#define EACH_COLUMN(GIVEN, KEPT) { \
    const REALV p0_0_0_0 = GIVEN(0), p0_0_1_0 = GIVEN(1), p0_0_2_0 = GIVEN(2), p0_0_3_0 = GIVEN(3); \
    const REALV p0_1_0_0 = EVEN(p0_0_0_0, p0_0_1_0), p0_1_0_1 = ODD(p0_0_0_0, p0_0_1_0), p0_1_1_0 = EVEN(p0_0_2_0, p0_0_3_0), p0_1_1_1 = ODD(p0_0_2_0, p0_0_3_0); \
    const REALV p0_2_0_0 = EVEN(p0_1_0_0, p0_1_1_0), p0_2_0_2 = ODD(p0_1_0_0, p0_1_1_0), p0_2_0_1 = EVEN(p0_1_0_1, p0_1_1_1), p0_2_0_3 = ODD(p0_1_0_1, p0_1_1_1); \
    KEPT(0, p0_2_0_0) KEPT(1, p0_2_0_1) KEPT(2, p0_2_0_2) KEPT(3, p0_2_0_3) \
}


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
// Minimal filtering on CPU devices: where the tiles of outputs are in their images, and their stores by rows.

#if defined(__clang__) && !defined(NO_SHUFFLES)
#define LOW_HALVES(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#else
#define LOW_HALVES(a, b) (REALV)((a).s0, (b).s0, (a).s1, (b).s1, (a).s2, (b).s2, (a).s3, (b).s3)
#endif
#if defined(__clang__) && !defined(NO_SHUFFLES)
#define HIGH_HALVES(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define HIGH_HALVES(a, b) (REALV)((a).s4, (b).s4, (a).s5, (b).s5, (a).s6, (b).s6, (a).s7, (b).s7)
#endif
#define TURN_2(LOADED, KEPT) { \
    const REALV x0_0 = LOADED(0), x0_1 = LOADED(1); \
    const REALV x1_0 = LOW_HALVES(x0_0, x0_1), x1_1 = HIGH_HALVES(x0_0, x0_1); \
    KEPT(0, x1_0) KEPT(1, x1_1) \
}
#define TURN_4(LOADED, KEPT) { \
    const REALV x0_0 = LOADED(0), x0_1 = LOADED(1), x0_2 = LOADED(2), x0_3 = LOADED(3); \
    const REALV x1_0 = LOW_HALVES(x0_0, x0_2), x1_1 = HIGH_HALVES(x0_0, x0_2), x1_2 = LOW_HALVES(x0_1, x0_3), x1_3 = HIGH_HALVES(x0_1, x0_3); \
    const REALV x2_0 = LOW_HALVES(x1_0, x1_2), x2_1 = HIGH_HALVES(x1_0, x1_2), x2_2 = LOW_HALVES(x1_1, x1_3), x2_3 = HIGH_HALVES(x1_1, x1_3); \
    KEPT(0, x2_0) KEPT(1, x2_1) KEPT(2, x2_2) KEPT(3, x2_3) \
}
#define TURN_8(LOADED, KEPT) { \
    const REALV x0_0 = LOADED(0), x0_1 = LOADED(1), x0_2 = LOADED(2), x0_3 = LOADED(3), x0_4 = LOADED(4), x0_5 = LOADED(5), x0_6 = LOADED(6), x0_7 = LOADED(7); \
    const REALV x1_0 = LOW_HALVES(x0_0, x0_4), x1_1 = HIGH_HALVES(x0_0, x0_4), x1_2 = LOW_HALVES(x0_1, x0_5), x1_3 = HIGH_HALVES(x0_1, x0_5), x1_4 = LOW_HALVES(x0_2, x0_6), x1_5 = HIGH_HALVES(x0_2, x0_6), x1_6 = LOW_HALVES(x0_3, x0_7), x1_7 = HIGH_HALVES(x0_3, x0_7); \
    const REALV x2_0 = LOW_HALVES(x1_0, x1_4), x2_1 = HIGH_HALVES(x1_0, x1_4), x2_2 = LOW_HALVES(x1_1, x1_5), x2_3 = HIGH_HALVES(x1_1, x1_5), x2_4 = LOW_HALVES(x1_2, x1_6), x2_5 = HIGH_HALVES(x1_2, x1_6), x2_6 = LOW_HALVES(x1_3, x1_7), x2_7 = HIGH_HALVES(x1_3, x1_7); \
    const REALV x3_0 = LOW_HALVES(x2_0, x2_4), x3_1 = HIGH_HALVES(x2_0, x2_4), x3_2 = LOW_HALVES(x2_1, x2_5), x3_3 = HIGH_HALVES(x2_1, x2_5), x3_4 = LOW_HALVES(x2_2, x2_6), x3_5 = HIGH_HALVES(x2_2, x2_6), x3_6 = LOW_HALVES(x2_3, x2_7), x3_7 = HIGH_HALVES(x2_3, x2_7); \
    KEPT(0, x3_0) KEPT(1, x3_1) KEPT(2, x3_2) KEPT(3, x3_3) KEPT(4, x3_4) KEPT(5, x3_5) KEPT(6, x3_6) KEPT(7, x3_7) \
}


typedef RAWV __attribute__((aligned(sizeof(RAW)))) RAW_PACKED;
typedef JOIN(RAW, TILE) __attribute__((aligned(sizeof(RAW)))) TILE_ROW;

// The rows and columns of a tile that are in its image, and its offset in the images; of VECTOR tiles.
typedef struct {
    int start[VECTOR], rows[VECTOR], columns[VECTOR];
    bool run[TILE];  // true if the tiles of a vector of a row's elements are next to each other, and whole
} targets;

#define PART (VECTOR / TILE)  // tiles of such a vector

static inline void find_targets(const tiling* g, const uint first_tile, targets* to) {
    const int count = (int)g->tiles - (int)first_tile;
    place p = place_of(g, min(first_tile, (uint)g->tiles - 1));
    for (int tile = 0; tile < VECTOR; tile++) {
        to->start[tile] = p.start;
        to->rows[tile] = tile < count ? min(TILE, (int)g->height - p.top) : 0;
        to->columns[tile] = min(TILE, (int)g->width - p.left);
        advance(g, &p);
    }
    for (int q = 0; q < TILE; q++) {
        const int first = q * PART;
        to->run[q] = true;
        for (int tile = first; tile < first + PART; tile++)
            to->run[q] &= to->rows[tile] == TILE && to->columns[tile] == TILE
                          && to->start[tile] == to->start[first] + (tile - first) * TILE;
    }
}

#define ROW_OF_TILES(j) three[i][j]
#define TO_LANES(q, x) lanes[i][q] = NARROW(x);

// Stores the elements of VECTOR tiles to an image.
static inline void store_tiles(const REALV three[TILE][TILE], const targets* to, __global STORAGE* image, const int width) {
    RAWV lanes[TILE][TILE];
    for (int i = 0; i < TILE; i++) JOIN(TURN_, TILE)(ROW_OF_TILES, TO_LANES)
    for (int q = 0; q < TILE; q++) {
        if (to->run[q]) {
            for (int i = 0; i < TILE; i++) *(__global RAW_PACKED*)(image + to->start[q * PART] + i * width) = lanes[i][q];
            continue;
        }
        for (int tile = q * PART; tile < q * PART + PART; tile++)
            for (int i = 0; i < to->rows[tile]; i++) {
                const RAW* row = (const RAW*)lanes[i] + tile * TILE;
                __global STORAGE* line = image + to->start[tile] + i * width;
                if (to->columns[tile] == TILE) *(__global TILE_ROW*)line = *(const TILE_ROW*)row;
                else for (int j = 0; j < to->columns[tile]; j++) RAW_STORE(row[j], line, j);
            }
    }
}

// The sums of a tile of ROWS rows x COLUMNS = VECTORS * VECTOR columns in registers, for the kernels of CPU devices:
// macros of a row i with the sums c<i>_0 ..; a<i> points to its elements of A, bp to a vector of B. RUN products each
// are summed, then added to the total at s: this reduces the rounding error of long sums.

#define COLUMNS (VECTORS * VECTOR)
#define RUN 64

#if ROWS == 4
#define EACH_ROW(F) F(0) F(1) F(2) F(3)
#elif ROWS == 6
#define EACH_ROW(F) F(0) F(1) F(2) F(3) F(4) F(5)
#elif ROWS == 8
#define EACH_ROW(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#elif ROWS == 10
#define EACH_ROW(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9)
#elif ROWS == 14
#define EACH_ROW(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13)
#elif ROWS == 12
#define EACH_ROW(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#endif

#if VECTORS == 1
#define DECLARE(i) REALV c##i##_0 = 0;
#define KEEP(i) s[i] = c##i##_0;
#define ADD(i) s[i] += c##i##_0;
#define MULTIPLY(i) { const REAL x = A_AT(a##i, at); c##i##_0 += x * b0; }
#define STRIP_LOAD const REALV b0 = bp[0];
#else
#define DECLARE(i) REALV c##i##_0 = 0, c##i##_1 = 0;
#define KEEP(i) s[2 * i] = c##i##_0; s[2 * i + 1] = c##i##_1;
#define ADD(i) s[2 * i] += c##i##_0; s[2 * i + 1] += c##i##_1;
#define MULTIPLY(i) { const REAL x = A_AT(a##i, at); c##i##_0 += x * b0; c##i##_1 += x * b1; }
#define STRIP_LOAD const REALV b0 = bp[0], b1 = bp[1];
#endif

// The sums of `length` products; unless they are the `first` ones, the total is added. The next element of A is `stride` on.
#define SUM_PRODUCTS(length, stride, first) { \
    size_t at = 0; \
    long k = 0; \
    do { \
        EACH_ROW(DECLARE) \
        for (const long stop = min(length, k + RUN); k < stop; k++, at += stride, bp += VECTORS) { \
            STRIP_LOAD \
            EACH_ROW(MULTIPLY) \
        } \
        if (k <= RUN && (first)) { EACH_ROW(KEEP) } \
        else { EACH_ROW(ADD) } \
    } while (k < length); \
}
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

__kernel LOOPS void filter_images(
    __global const STORAGE *restrict x,
    __global const REAL *restrict panels,
    __global STORAGE *restrict out,
    __global REAL *restrict scratch,
    const filtering geometry,
    __global const STORAGE *restrict e1) {
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
                            for (int j = 0; j < TILE; j++) three[i][j] = epilogue(three[i][j], (REALV)(LOAD(e1, all.operands[0].offset + plane * all.operands[0].row)));
                    store_tiles(three, to + v, out + plane * o.plane, (int)o.width);
                }
            }
        }
    }
}
