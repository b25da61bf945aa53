// contract_winograd/cpu_float16_in_float32
#define DTYPE_FLOAT16_IN_FLOAT32 1
#define VECTOR 8
#define TILE 4
#define ROWS 6
#define OPERANDS 1
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
#define RAW float
#define RAWV float8
#define WIDEN(v) rounded_vector(v)
#define NARROW(x) rounded_vector(x)
#define RAW_LOAD(p, i) ((p)[i])
#define RAW_STORE(x, p, i) ((p)[i] = (x))
#define GATHER(p, from) WIDEN((RAWV)(RAW_LOAD(p, (from)[0]), RAW_LOAD(p, (from)[1]), RAW_LOAD(p, (from)[2]), RAW_LOAD(p, (from)[3]), RAW_LOAD(p, (from)[4]), RAW_LOAD(p, (from)[5]), RAW_LOAD(p, (from)[6]), RAW_LOAD(p, (from)[7])))
// Epilogue fusion: a kernel passes its sums through epilogue(sum, operands...) before it stores them. The operands are
// OPERANDS pointers e1, e2, .. and their layouts, at least one. fused_epilogue.py writes `$epilogue`, the declaration of the
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

// Convolution with kernels of 3 x 3, stride 1, by minimal filtering for CPU devices. A tile of TILE x TILE outputs becomes
// SIDE x SIDE = (TILE + 2)^2 products, each the element of one of as many matrix products, which contract_cpu.cl computes in
// between. winograd_matrices.cl has the transforms.
//
// weight_tiles    panels of rows of G w G^T, [SIDE^2][tile of rows][column][ROWS]
// data_tiles      B^T d B of padded images, [SIDE^2][plane][tile]; a row of tiles has `stride` elements
// output_tiles    A^T m A, through epilogue(sum, operands...) if requested, to the images
// gradient_tiles  A d A^T of the gradient of an output, [SIDE^2][plane][tile]
// weight_sums     G^T u G: the gradient of the weights from its [SIDE^2][element]
//
// A work-item takes every `items`-th vector of tiles of its plane. Contraction of a*b+c into one rounding is allowed here.

typedef struct {
    long planes, tiles, stride, items;
    long across, per_image;            // tiles of a row, of an image
    long row, plane, image, offset;    // elements from one to the next; of the first
    long height, width;
    long finished;
    operand operands[OPERANDS];
} tiling;

typedef struct {
    long rows, columns, panel, row_step, column_step, offset, flipped;
} weights;

__kernel void weight_tiles(__global const STORAGE* restrict w, __global REAL* restrict panels, const weights g) {
    const size_t tile = get_global_id(0);
    const size_t step = (size_t)((g.rows + ROWS - 1) / ROWS) * g.panel;
    w += g.offset;
    for (size_t first = 0; first < (size_t)g.panel; first += VECTOR) {
        size_t from[VECTOR];
        for (int i = 0; i < VECTOR; i++) {
            const size_t column = min((size_t)(first + i) / ROWS, (size_t)(g.columns - 1));
            const size_t row = min(tile * ROWS + (first + i) % ROWS, (size_t)(g.rows - 1));
            from[i] = row * g.row_step + column * g.column_step;
        }
        REALV one[3][3], two[SIDE][3], three[SIDE][SIDE];
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) one[i][j] = GATHER(w + (g.flipped ? 8 - i * 3 - j : i * 3 + j), from);
        BOTH(WEIGHT, 3, SIDE)
        __global REAL* to = panels + tile * g.panel + first;
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++) GSTORE(three[i][j], to + (i * SIDE + j) * step);
    }
}

// The offsets of the tiles of vector `group` in the images.
static inline void tile_offsets(const tiling* g, const size_t group, size_t* from) {
    for (int i = 0; i < VECTOR; i++) {
        const uint tile = min((uint)(group * VECTOR + i), (uint)(g->tiles - 1));
        const uint image = tile / (uint)g->per_image, rest = tile - image * (uint)g->per_image;
        const uint down = rest / (uint)g->across, right = rest - down * (uint)g->across;
        from[i] = (size_t)image * g->image + (size_t)down * TILE * g->row + (size_t)right * TILE;
    }
}

__kernel void data_tiles(__global const STORAGE* restrict x, __global REAL* restrict tiles, const tiling g) {
    const size_t plane = get_global_id(0) % g.planes, groups = (g.tiles + VECTOR - 1) / VECTOR;
    const size_t step = (size_t)g.planes * g.stride;
    x += g.offset + plane * g.plane;
    for (size_t group = get_global_id(0) / g.planes; group < groups; group += g.items) {
        size_t from[VECTOR];
        tile_offsets(&g, group, from);
        REALV one[SIDE][SIDE], two[SIDE][SIDE], three[SIDE][SIDE];
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++) one[i][j] = GATHER(x + i * g.row + j, from);
        BOTH(DATA, SIDE, SIDE)
        __global REAL* to = tiles + plane * g.stride + group * VECTOR;
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++) GSTORE(three[i][j], to + (i * SIDE + j) * step);
    }
}

__kernel void gradient_tiles(__global const STORAGE* restrict x, __global REAL* restrict tiles, const tiling g) {
    const size_t plane = get_global_id(0) % g.planes, groups = (g.tiles + VECTOR - 1) / VECTOR;
    const size_t step = (size_t)g.planes * g.stride;
    x += g.offset + plane * g.plane;
    for (size_t group = get_global_id(0) / g.planes; group < groups; group += g.items) {
        size_t from[VECTOR];
        tile_offsets(&g, group, from);
        REALV one[TILE][TILE], two[SIDE][TILE], three[SIDE][SIDE];
        for (int i = 0; i < TILE; i++)
            for (int j = 0; j < TILE; j++) one[i][j] = GATHER(x + i * g.row + j, from);
        BOTH(GRADIENT, TILE, SIDE)
        __global REAL* to = tiles + plane * g.stride + group * VECTOR;
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++) GSTORE(three[i][j], to + (i * SIDE + j) * step);
    }
}

__kernel void output_tiles(__global const REAL* restrict sums, __global STORAGE* restrict out,
                           const tiling g, __global const STORAGE* restrict e1) {
    const size_t plane = get_global_id(0) % g.planes, groups = (g.tiles + VECTOR - 1) / VECTOR;
    const size_t step = (size_t)g.planes * g.stride;
    out += g.offset + plane * g.plane;
    for (size_t group = get_global_id(0) / g.planes; group < groups; group += g.items) {
        size_t from[VECTOR];
        tile_offsets(&g, group, from);
        __global const REAL* at = sums + plane * g.stride + group * VECTOR;
        REALV one[SIDE][SIDE], two[TILE][SIDE], three[TILE][TILE];
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++) one[i][j] = GLOAD(at + (i * SIDE + j) * step);
        BOTH(OUTPUT, SIDE, TILE)
        RAWV lanes[TILE * TILE];
        const RAW* lane_of = (const RAW*)lanes;
        for (int i = 0; i < TILE; i++)
            for (int j = 0; j < TILE; j++) {
                if (g.finished) three[i][j] = epilogue(three[i][j], (REALV)(LOAD(e1, g.operands[0].offset + plane * g.operands[0].row)));
                lanes[i * TILE + j] = NARROW(three[i][j]);
            }
        const int count = min((size_t)VECTOR, (size_t)g.tiles - group * VECTOR);
        for (int lane = 0; lane < count; lane++) {
            const uint rest = (uint)(group * VECTOR + lane) % (uint)g.per_image;
            const int down = rest / (uint)g.across * TILE, right = rest % (uint)g.across * TILE;
            const int rows = min(TILE, (int)g.height - down), columns = min(TILE, (int)g.width - right);
            __global STORAGE* to = out + from[lane];
            if (rows == TILE && columns == TILE)
                for (int i = 0; i < TILE; i++)
                    for (int j = 0; j < TILE; j++) RAW_STORE(lane_of[(i * TILE + j) * VECTOR + lane], to, i * g.row + j);
            else
                for (int i = 0; i < rows; i++)
                    for (int j = 0; j < columns; j++) RAW_STORE(lane_of[(i * TILE + j) * VECTOR + lane], to, i * g.row + j);
        }
    }
}

__kernel void weight_sums(__global const REAL* restrict sums, __global STORAGE* restrict out, const long size, const long items,
                          const long offset) {
    out += offset;
    for (size_t first = get_global_id(0) * VECTOR; first < (size_t)size; first += items * VECTOR) {
        REALV one[SIDE][SIDE], two[3][SIDE], three[3][3];
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++) one[i][j] = GLOAD(sums + (i * SIDE + j) * size + first);
        BOTH(SUMS, SIDE, 3)
        const int count = min((size_t)VECTOR, (size_t)size - first);
        if (count == VECTOR) {
            RAWV lanes[9];
            const RAW* lane_of = (const RAW*)lanes;
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++) lanes[i * 3 + j] = NARROW(three[i][j]);
            for (int lane = 0; lane < VECTOR; lane++)
                for (int tap = 0; tap < 9; tap++) RAW_STORE(lane_of[tap * VECTOR + lane], out, (first + lane) * 9 + tap);
            continue;
        }
        REAL lanes[9][VECTOR];
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) RSTORE(three[i][j], lanes[i * 3 + j]);
        for (int lane = 0; lane < count; lane++)
            for (int tap = 0; tap < 9; tap++) STORE(lanes[tap][lane], out, (first + lane) * 9 + tap);
    }
}
