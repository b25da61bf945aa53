// winograd_gpu/data_tiles_float32_2
#define DTYPE_FLOAT32 1
#define TILE 2
#define REALV REAL
#define TILES_KERNEL data_tiles
#define WINDOW SIDE
#define TILES_MATRIX DATA
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
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

__kernel void TILES_KERNEL(
    __global const STORAGE *restrict x,
    __global REAL *restrict tiles,
    const tiling g) {
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
