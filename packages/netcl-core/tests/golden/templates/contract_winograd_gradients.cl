// contract_winograd_gradients/cpu_float32_2
#define DTYPE_FLOAT32 1
#define VECTOR 8
#define VECTORS 2
#define TILE 2
#define ROWS 6
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

__kernel LOOPS void filter_gradients(
    __global const REAL *restrict grads,
    __global const REAL *restrict data,
    __global STORAGE *restrict out,
    __global REAL *restrict scratch,
    const gradients geometry) {
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
