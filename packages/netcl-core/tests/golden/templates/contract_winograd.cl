// contract_winograd/cpu_float16_in_float32
#define DTYPE_FLOAT16_IN_FLOAT32 1
#define VECTOR 8
#define TILE 4
#define ROWS 6
#define OPERANDS 1
#define SPAN 4
#define ROW_TILES 4
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define REALV float8
typedef float8 __attribute__((aligned(4))) PACKED;
#define GLOAD(p) (*(__global const PACKED*)(p))
#define GSTORE(x, p) (*(__global PACKED*)(p) = (x))
#define RLOAD(p) vload8(0, (p))
#define RSTORE(x, p) vstore8((x), 0, (p))
static inline float rounded(const float x) { ushort v; vstore_half_rte(x, 0, (half*)&v); return vload_half(0, (const half*)&v); }
static inline float8 widened(const ushort8 v) { return (float8)(vload_half4(0, (const half*)&v), vload_half4(1, (const half*)&v)); }
static inline ushort8 narrowed(const float8 x) { ushort8 v; vstore_half4_rte(x.lo, 0, (half*)&v); vstore_half4_rte(x.hi, 1, (half*)&v); return v; }
static inline float8 rounded_vector(const float8 x) { return widened(narrowed(x)); }
#define LOAD(p, i) rounded((p)[i])
#define STORE(x, p, i) ((p)[i] = rounded(x))
#define VLOAD(p) rounded_vector(GLOAD(p))
#define VSTORE(x, p) GSTORE(rounded_vector(x), (p))
#define ROUNDED_LATER
#define RAW float
#define RAWV float8
#define WIDEN(v) rounded_vector(v)
#define NARROW(x) rounded_vector(x)
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

// Minimal filtering on CPU devices: the stores of weights' gradients. TURN_4 is in winograd_targets.cl.

#define TAPS_FROM_0(j) three[j / 3][j % 3]
#define TAPS_FROM_4(j) three[(j + 4) / 3][(j + 4) % 3]
#define TO_FIRST(q, x) lanes[0][q] = NARROW(x);
#define TO_SECOND(q, x) lanes[1][q] = NARROW(x);
typedef JOIN(RAW, 4) __attribute__((aligned(sizeof(RAW)))) FOUR;

// Stores the 9 taps of the first `count` lanes.
static inline void store_taps(const REALV three[3][3], __global STORAGE* out, const int count) {
    RAWV lanes[3][4];
    TURN_4(TAPS_FROM_0, TO_FIRST)
    TURN_4(TAPS_FROM_4, TO_SECOND)
    lanes[2][0] = NARROW(three[2][2]);
    for (int lane = 0; lane < count; lane++) {
        __global STORAGE* to = out + lane * 9;
        for (int i = 0; i < 2; i++) *(__global FOUR*)(to + i * 4) = *(const FOUR*)((const RAW*)lanes[i] + lane * 4);
        RAW_STORE(((const RAW*)lanes[2])[lane], to, 8);
    }
}

// Convolution with kernels of 3 x 3, stride 1, by minimal filtering for CPU devices. A tile of TILE x TILE outputs becomes
// SIDE x SIDE = (TILE + 2)^2 products, each the element of one of as many matrix products, which contract_cpu.cl computes in
// between. winograd_matrices.cl has the transforms, contract_winograd_windows.cl the kernels that read images.
//
// weight_tiles    panels of rows of G w G^T, [SIDE^2][tile of rows][column][ROWS]
// output_tiles    A^T m A, through epilogue(sum, operands...) if requested, to the images
// weight_sums     G^T u G: the gradient of the weights from its [SIDE^2][element]
//
// Contraction of a*b+c into one rounding is allowed here. transposes.py writes TOGETHER, EACH_COLUMN and TURN_.

#define WIDTH 8
#define TAKEN 8
#define MANY 1
#define PARTS 1
#ifndef NO_SHUFFLES
#define TOGETHER(type, ROW) (type)(ROW(0))
#else
#define TOGETHER(type, ROW) (type)(ROW(0))
#endif
#define COLUMN_NUMBERS 0, 1, 2, 3, 4, 5, 6, 7
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
    const REALV p0_0_0_0 = GIVEN(0), p0_0_1_0 = GIVEN(1), p0_0_2_0 = GIVEN(2), p0_0_3_0 = GIVEN(3), p0_0_4_0 = GIVEN(4), p0_0_5_0 = GIVEN(5), p0_0_6_0 = GIVEN(6), p0_0_7_0 = GIVEN(7); \
    const REALV p0_1_0_0 = EVEN(p0_0_0_0, p0_0_1_0), p0_1_0_1 = ODD(p0_0_0_0, p0_0_1_0), p0_1_1_0 = EVEN(p0_0_2_0, p0_0_3_0), p0_1_1_1 = ODD(p0_0_2_0, p0_0_3_0), p0_1_2_0 = EVEN(p0_0_4_0, p0_0_5_0), p0_1_2_1 = ODD(p0_0_4_0, p0_0_5_0), p0_1_3_0 = EVEN(p0_0_6_0, p0_0_7_0), p0_1_3_1 = ODD(p0_0_6_0, p0_0_7_0); \
    const REALV p0_2_0_0 = EVEN(p0_1_0_0, p0_1_1_0), p0_2_0_2 = ODD(p0_1_0_0, p0_1_1_0), p0_2_0_1 = EVEN(p0_1_0_1, p0_1_1_1), p0_2_0_3 = ODD(p0_1_0_1, p0_1_1_1), p0_2_1_0 = EVEN(p0_1_2_0, p0_1_3_0), p0_2_1_2 = ODD(p0_1_2_0, p0_1_3_0), p0_2_1_1 = EVEN(p0_1_2_1, p0_1_3_1), p0_2_1_3 = ODD(p0_1_2_1, p0_1_3_1); \
    const REALV p0_3_0_0 = EVEN(p0_2_0_0, p0_2_1_0), p0_3_0_4 = ODD(p0_2_0_0, p0_2_1_0), p0_3_0_1 = EVEN(p0_2_0_1, p0_2_1_1), p0_3_0_5 = ODD(p0_2_0_1, p0_2_1_1), p0_3_0_2 = EVEN(p0_2_0_2, p0_2_1_2), p0_3_0_6 = ODD(p0_2_0_2, p0_2_1_2), p0_3_0_3 = EVEN(p0_2_0_3, p0_2_1_3), p0_3_0_7 = ODD(p0_2_0_3, p0_2_1_3); \
    KEPT(0, p0_3_0_0) KEPT(1, p0_3_0_1) KEPT(2, p0_3_0_2) KEPT(3, p0_3_0_3) KEPT(4, p0_3_0_4) KEPT(5, p0_3_0_5) KEPT(6, p0_3_0_6) KEPT(7, p0_3_0_7) \
}


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
__kernel LOOPS void weight_tiles(
    __global const STORAGE *restrict w,
    __global REAL *restrict panels,
    const weights g) {
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
__kernel LOOPS void output_tiles(
    __global const REAL *restrict sums,
    __global STORAGE *restrict out,
    const outputs geometry,
    __global const STORAGE *restrict e1) {
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
                    for (int j = 0; j < TILE; j++) three[i][j] = epilogue(three[i][j], (REALV)(LOAD(e1, all.operands[0].offset + plane * all.operands[0].row)));
            store_tiles(three, to, image, (int)g.width);
        }
}

static inline REALV first_of(__global const REAL* x, const int count) {
    REALV found = 0;
    for (int lane = 0; lane < count; lane++) ((REAL*)&found)[lane] = x[lane];
    return found;
}

__kernel LOOPS void weight_sums(
    __global const REAL *restrict sums,
    __global STORAGE *restrict out,
    const long size,
    const long step,
    const long items,
    const long offset) {
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
