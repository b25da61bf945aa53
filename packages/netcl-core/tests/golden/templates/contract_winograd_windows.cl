// contract_winograd_windows/cpu_float32_2_data_tiles
#define DTYPE_FLOAT32 1
#define VECTOR 8
#define TILE 2
#define TILES_KERNEL data_tiles
#define TILES_MATRIX DATA
#define WINDOW 4
#define SPAN 4
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
// TILES_KERNEL on CPU devices: the tiles of images (data_tiles) or of the gradient of an output (gradient_tiles),
// [SIDE^2][plane][tile]. A work-item takes `each` planes of `span` vectors of tiles, and computes their places once.
// Contraction of a*b+c into one rounding is allowed here.

__kernel LOOPS void TILES_KERNEL(
    __global const STORAGE *restrict x,
    __global REAL *restrict tiles,
    const tiling geometry) {
    const tiling g = geometry;
    const size_t spans = (g.stride + g.span * VECTOR - 1) / (g.span * VECTOR), span = get_global_id(0) % spans;
    const size_t first = get_global_id(0) / spans * g.each, last = min((size_t)g.planes, (size_t)(first + g.each));
    const int count = min(g.span, g.stride / VECTOR - (long)span * g.span);
    windows of[SPAN];
    for (int i = 0; i < count; i++) find_windows(&g, place_of(&g, (span * g.span + i) * VECTOR), of + i);
    for (size_t plane = first; plane < last; plane++) {
        const long at = g.offset + plane * g.plane;
        __global REAL* to = tiles + plane * g.stride + span * g.span * VECTOR;
        for (int i = 0; i < count; i++) transform_windows(x + at, at, g.length - at, &g, of + i, to + i * VECTOR, g.product);
    }
}
