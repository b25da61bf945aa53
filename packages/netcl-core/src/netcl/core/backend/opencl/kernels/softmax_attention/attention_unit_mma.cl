// Fragments of the tiles of contract_attention_unit.cl by ldmatrix, and the exchange of scores in a warp, in inline
// PTX.

// The fragment of A: 16 rows from `row` on, 16 columns from `column` on.
static inline uint4 left_fragment(__local const ushort* tile, const uint rows, const uint row, const uint column, const uint lane) {
    return rows_of(tile + PANEL(rows, row + lane % 16, lane % 8, column / 8 + lane / 16));
}

// The fragment of B with 16 rows of the tile as columns, summed along columns of the tile.
static inline uint4 along_fragment(__local const ushort* tile, const uint rows, const uint row, const uint column, const uint lane) {
    return rows_of(tile + PANEL(rows, row + lane % 8 + lane / 16 * 8, lane % 8, column / 8 + lane / 8 % 2));
}

// The fragment of B with 16 columns of the tile as columns, summed along rows of the tile.
static inline uint4 across_fragment(__local const ushort* tile, const uint rows, const uint row, const uint column, const uint lane) {
    return columns_of(tile + PANEL(rows, row + lane % 16, lane % 8, column / 8 + lane / 16));
}

static inline uint packed(const float low, const float high) {
    uint pair;
    asm("cvt.rn." KIND "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

static inline float exponential(const float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Results of the four work-items that have a row of scores.
static inline float of_neighbour(const float x, const int distance) {
    float y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(y) : "f"(x), "r"(distance));
    return y;
}
static inline float quad_max(float x) {
    x = fmax(x, of_neighbour(x, 1));
    return fmax(x, of_neighbour(x, 2));
}
static inline float quad_sum(float x) {
    x += of_neighbour(x, 1);
    return x + of_neighbour(x, 2);
}
#define QUAD_MAX(x) quad_max(x)
#define QUAD_SUM(x) quad_sum(x)
