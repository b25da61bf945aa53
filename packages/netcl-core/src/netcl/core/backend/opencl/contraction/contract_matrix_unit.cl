// GEMM of 16-bit operands on a matrix unit, with sums in float32: out[z][i][j] = sum_k A[z][i][k] * B[z][k][j].
//
// A work-group computes SPAN_M x SPAN_N results. Blocks of SPAN_K along k go through a ring of STAGES buffers in local
// memory: copies of later blocks are under way while WARPS_M x WARPS_N warps of 32 work-items multiply this one, each
// WARP_M x WARP_N results in fragments of 16 x 8. Work-groups walk the results in columns of GROUP_ROWS row blocks, so that
// those at work at a time share operands in the cache.
//
// An operand whose elements are contiguous along k (A_ALONG, B_ALONG) is stored in rows of SPAN_K, else in SPAN_K rows; chunks
// of 8 elements are swizzled, so that the 8 rows of a fragment are in different banks. Elements past an edge are zeros.

// Starts the copies of the block at `start` of an operand with `count` rows or columns from `first` on. `step` is the distance
// of its rows or columns, or of its elements along k, whichever is not 1. Rows past the last one are read as zeros: their
// chunks have no elements.
static inline void copy_along(__local ushort* tile, __global const ushort* from, const uint span, const uint item, const int first,
                              const int count, const int start, const int depth, const int step) {
    const uint row = item / ALONG_CHUNKS, chunk = item % ALONG_CHUNKS, rows = ITEMS / ALONG_CHUNKS;
    const int k = start + (int)chunk * 8, some = clamp(depth - k, 0, 8), last = count - 1;
    __local ushort* to = tile + ALONG(row, row, chunk);
    from += some > 0 ? k : 0;
    EACH_CHUNK
    for (uint i = 0; i < span / rows; i++) {
        const int r = first + (int)(row + i * rows);
        copy_chunk(to + i * rows * SPAN_K, from + min(r, last) * step, r <= last ? some : 0);
    }
}

static inline void copy_across(__local ushort* tile, __global const ushort* from, const uint span, const uint item, const int first,
                               const int count, const int start, const int depth, const int step) {
    const uint row = item / (span / 8), chunk = item % (span / 8), rows = ITEMS / (span / 8);
    const int column = first + (int)chunk * 8, some = clamp(count - column, 0, 8), last = depth - 1;
    from += some > 0 ? column : 0;
    EACH_CHUNK
    for (uint i = 0; i < SPAN_K / rows; i++) {
        const uint at = row + i * rows;
        const int k = start + (int)at;
        copy_chunk(tile + ACROSS(span, at, at, chunk), from + min(k, last) * step, k <= last ? some : 0);
    }
}

// The same of a tile with no element past an edge: few instructions for each copy.
static inline void copy_inner(__local ushort* tile, __global const ushort* from, const bool along, const uint span, const uint item,
                              const int first, const int start, const int step) {
    const uint chunks = along ? ALONG_CHUNKS : span / 8, row = item / chunks, chunk = item % chunks, rows = ITEMS / chunks;
    from += along ? (first + (int)row) * step + (start + (int)chunk * 8) : (start + (int)row) * step + (first + (int)chunk * 8);
    EACH_CHUNK
    for (uint i = 0; i < (along ? span : SPAN_K) / rows; i++) {
        const uint at = row + i * rows;
        copy_whole_chunk(tile + (along ? ALONG(at, row, chunk) : ACROSS(span, at, at, chunk)), from + (int)(i * rows) * step);
    }
}

// Starts the copies of both operands' blocks at `start`.
#define COPY_OPERAND(tile, from, along, span, first, count, step) \
    if (inner_tile && start + SPAN_K <= depth) copy_inner(tile, from, along, span, item, first, start, step); \
    else if (along) copy_along(tile, from, span, item, first, count, start, depth, step); \
    else copy_across(tile, from, span, item, first, count, start, depth, step);
#define COPY(tile, at) { \
        const int start = at; \
        COPY_OPERAND(tile, a, A_ALONG, SPAN_M, row, m, a_step) \
        COPY_OPERAND(tile + TILE_A, b, B_ALONG, SPAN_N, column, n, b_step) \
    }

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void matrix_unit(__global const STORAGE* restrict a_, __global const STORAGE* restrict b_, __global STORAGE* restrict out, const product g FINISHING) {
    __local ushort tiles[STAGES * (TILE_A + TILE_B)] ALIGNED_TILES;
    UNIT_MEMORY
    const uint item = get_local_id(0), warp = item / 32, lane = item % 32;
    const int m = g.m, n = g.n, depth = g.k, a_step = A_ALONG ? g.a_row : g.a_k, b_step = B_ALONG ? g.b_n : g.b_k;
    const int rows = (m + SPAN_M - 1) / SPAN_M, columns = (n + SPAN_N - 1) / SPAN_N, number = get_group_id(0);
    const int band = number / (GROUP_ROWS * columns), height = min(GROUP_ROWS, rows - band * GROUP_ROWS);
    const int within = number - band * GROUP_ROWS * columns;
    const int row = (band * GROUP_ROWS + within % height) * SPAN_M, column = within / height * SPAN_N;
    const long z = get_global_id(2), outer = z / g.inner_batch, inner = z % g.inner_batch;
    __global const ushort* a = (__global const ushort*)a_ + g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1];
    __global const ushort* b = (__global const ushort*)b_ + g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1];
    out += g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1];
    BEGIN_OPERANDS
    const uint warp_row = warp % WARPS_M * WARP_M, warp_column = warp / WARPS_M * WARP_N;
    float sums[WARP_M / 16][WARP_N / 8][4];
    uint4 a_part[WARP_M / 16], b_part[WARP_N / 16];
    for (uint i = 0; i < WARP_M / 16; i++)
        for (uint j = 0; j < WARP_N / 8; j++)
            for (uint e = 0; e < 4; e++) sums[i][j][e] = 0;
    const bool inner_tile = row + SPAN_M <= m && column + SPAN_N <= n;
    const int blocks = (depth + SPAN_K - 1) / SPAN_K;
    for (int stage = 0; stage < STAGES - 1; stage++) {
        if (stage < blocks) COPY(tiles + stage * (TILE_A + TILE_B), stage * SPAN_K)
        COPIES_END;
    }
    int reading = 0, writing = STAGES - 1;  // of the ring
    for (int block = 0; block < blocks; block++) {
        COPIES_WAIT;  // for the copies of this block: those of STAGES - 2 later ones may be under way
        barrier(CLK_LOCAL_MEM_FENCE);
        if (block + STAGES - 1 < blocks) COPY(tiles + writing * (TILE_A + TILE_B), (block + STAGES - 1) * SPAN_K)
        COPIES_END;
        __local const ushort* a_tile = tiles + reading * (TILE_A + TILE_B);
        __local const ushort* b_tile = a_tile + TILE_A;
        EACH_FRAGMENT
        for (uint k = 0; k < SPAN_K; k += 16) {
            EACH_FRAGMENT
            for (uint i = 0; i < WARP_M / 16; i++) a_part[i] = fragment_a(a_tile, warp_row + i * 16, k, lane);
            EACH_FRAGMENT
            for (uint j = 0; j < WARP_N / 16; j++) b_part[j] = fragment_b(b_tile, warp_column + j * 16, k, lane);
            EACH_FRAGMENT
            for (uint i = 0; i < WARP_M / 16; i++)
                EACH_FRAGMENT
                for (uint j = 0; j < WARP_N / 16; j++) {
                    MULTIPLY(sums[i][2 * j], a_part[i], b_part[j].x, b_part[j].y);
                    MULTIPLY(sums[i][2 * j + 1], a_part[i], b_part[j].z, b_part[j].w);
                }
        }
        reading = reading + 1 == STAGES ? 0 : reading + 1;
        writing = writing + 1 == STAGES ? 0 : writing + 1;
    }
    const int out_row = g.out_row, out_n = g.out_n;
    EACH_FRAGMENT
    for (uint i = 0; i < WARP_M / 16; i++)
        EACH_FRAGMENT
        for (uint j = 0; j < WARP_N / 8; j++) {
            EACH_FRAGMENT
            for (uint e = 0; e < 4; e++) {
                const int r = min(row + (int)(warp_row + i * 16 + lane / 4 + e / 2 * 8), m - 1);
                const int c = min(column + (int)(warp_column + j * 8 + lane % 4 * 2 + e % 2), n - 1);
                sums[i][j][e] = FINISHED(sums[i][j][e], r, c, c * out_n);
            }
            EACH_FRAGMENT
            for (uint e = 0; e < 4; e++) {
                const int r = row + (int)(warp_row + i * 16 + lane / 4 + e / 2 * 8), c = column + (int)(warp_column + j * 8 + lane % 4 * 2 + e % 2);
                if (r < m && c < n) STORE(sums[i][j][e], out, r * out_row + c * out_n);
            }
        }
}
