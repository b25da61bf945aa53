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
                           const tiling g${operand_parameters}) {
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
                if (g.finished) three[i][j] = epilogue(three[i][j]${operand_values});
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
