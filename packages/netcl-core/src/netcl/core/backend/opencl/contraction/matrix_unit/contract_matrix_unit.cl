// GEMM on a matrix unit: out[z][i][j] = sum_k A[z][i][k] * B[z][k][j]. An element has WORDS words of 16 bits; all sizes
// and distances along k, and the distances of B's and A's rows and stacks, are in words.
//
// With PARTS the operands are float32 in PARTS bfloat16 planes each (matrix_unit_split.cl), at a distance of a_plane and b_plane:
// PRODUCTS products of planes for each block of k, the smallest first; their sum is added to a total outside the unit.
// A result that is not finite is computed again from the whole operands, so that Inf and NaN are the same as in
// float32.
//
// A work-group computes SPAN_M x SPAN_N results. Blocks of SPAN_K along k go through a ring of STAGES buffers in local
// memory: copies of AHEAD blocks are under way while WARPS_M x WARPS_N warps of LANES work-items multiply one, each
// WARP_M x WARP_N results in fragments of FRAGMENT_M x FRAGMENT_N, with SUMS per lane. Work-groups iterate over the
// results in columns of GROUP_ROWS row blocks, so that work-groups that run concurrently share operands in the cache
// (grouped rasterization). With several splits, work-groups along z compute partial sums of `part` elements of k each
// (split-K), which go to out + s * out_part.
//
// An operand is contiguous along k (A_ALONG, B_ALONG) or across it. Words past an edge are copied as zeros. With SEGMENTS operands
// along k jump: after each segment of k, a multiple of 8, follow a_jump and b_jump words of memory that are skipped.
//
// With COLUMN_PIXELS column j of B are the elements from pixel j on (struct pixels), contiguous along k, and of the result they are
// pixel j of images. With TERM_PIXELS row k of B are the elements from pixel k on. The elements have 16 bits, and are in segments,
// the rows of a filter; of each segment the first `valid` are taken, and with MASKED zeros follow.

#if SEGMENTS
#define SEGMENTED , const divisor segment, const int jump
#define SKIPPED(k) (quotient(k, segment) * jump)
#define A_SEGMENTS , segments, a_jump
#define B_SEGMENTS , segments, b_jump
#else
#define SEGMENTED
#define SKIPPED(k) 0
#define A_SEGMENTS
#define B_SEGMENTS
#endif

// Starts the copies of the block at `start` of an operand with `count` rows or columns from `first` on. `step` is the distance
// of its rows or columns, or of its elements along k, whichever is not 1. Rows past the last one are read as zeros: their
// chunks have no elements.
static inline void copy_along(__local ushort* tile, __global const ushort* from, const uint span, const uint item, const int first,
                              const int count, const int start, const int depth, const int step SEGMENTED) {
    const uint row = item / ALONG_CHUNKS, chunk = item % ALONG_CHUNKS, rows = ITEMS / ALONG_CHUNKS;
    const int k = start + (int)chunk * 8, some = clamp(depth - k, 0, 8), last = count - 1;
    __local ushort* to = tile + ALONG(row, row, chunk);
    from += some > 0 ? k + SKIPPED(k) : 0;
    ROLLED
    for (uint i = 0; i < span / rows; i++) {
        const int r = first + (int)(row + i * rows);
        copy_chunk(to + i * rows * SPAN_K, from + min(r, last) * step, r <= last ? some : 0);
    }
}

static inline void copy_across(__local ushort* tile, __global const ushort* from, const uint span, const uint item, const int first,
                               const int count, const int start, const int depth, const int step) {
    const uint row = item / (span * WORDS / 8), chunk = item % (span * WORDS / 8), rows = ITEMS / (span * WORDS / 8);
    const int column = first * WORDS + (int)chunk * 8, some = clamp(count * WORDS - column, 0, 8), last = depth / WORDS - 1;
    from += some > 0 ? column : 0;
    ROLLED
    for (uint i = 0; i < SPAN_K / WORDS / rows; i++) {
        const uint at = row + i * rows;
        const int k = start / WORDS + (int)at;
        copy_chunk(tile + ACROSS(at, at, chunk), from + min(k, last) * step, k <= last ? some : 0);
    }
}

// The same of a tile with no element past an edge: few instructions for each copy.
static inline void copy_inner(__local ushort* tile, __global const ushort* from, const bool along, const uint span, const uint item,
                              const int first, const int start, const int step SEGMENTED) {
    const uint chunks = along ? ALONG_CHUNKS : span * WORDS / 8, row = item / chunks, chunk = item % chunks, rows = ITEMS / chunks;
    from += along ? (first + (int)row) * step + (start + (int)chunk * 8) + SKIPPED(start + (int)chunk * 8)
                  : (start / WORDS + (int)row) * step + (first * WORDS + (int)chunk * 8);
    EACH_CHUNK
    for (uint i = 0; i < (along ? span : SPAN_K / WORDS) / rows; i++) {
        const uint at = row + i * rows;
        copy_whole_chunk(tile + (along ? ALONG(at, row, chunk) : ACROSS(at, at, chunk)), from + (int)(i * rows) * step);
    }
}

$if COLUMN_PIXELS or TERM_PIXELS
// Pixels of padded images: `plane` of an image, `wide` of a row, the elements from one image, row and pixel to the
// next, and of the results from one image to the next; the elements of a segment, how many of them are taken, and the elements between segments.
typedef struct { divisor plane, wide, segment; long image, row, pixel, out, valid, jump; } pixels;

static inline int pixel_begin(const pixels form, const int number) {
    const int n = quotient(number, form.plane), at = number - n * (int)form.plane.size;
    const int y = quotient(at, form.wide), x = at - y * (int)form.wide.size;
    return n * (int)form.image + y * (int)form.row + x * (int)form.pixel;
}

// The begin of the chunk at place `at` in the segments of a pixel, and its elements before `end`.
static inline int chunk_begin(const pixels form, const int at) { return at + quotient(at, form.segment) * (int)form.jump; }
static inline int chunk_count(const pixels form, const int at, const int end) {
    return clamp(min(end - at, (int)form.valid - (at - quotient(at, form.segment) * (int)form.segment.size)), 0, 8);
}
$end

$if COLUMN_PIXELS
#define BEGINS (SPAN_N / (ITEMS / ALONG_CHUNKS))  // pixels of a work-item
// Columns past the end repeat the last one.
#define BEGIN_PIXELS \
    int begins[BEGINS]; \
    EACH_CHUNK \
    for (uint i = 0; i < BEGINS; i++) begins[i] = pixel_begin(form, min(column + (int)(item / ALONG_CHUNKS + i * (SPAN_N / BEGINS)), n - 1));

static inline void copy_columns(__local ushort* tile, __global const ushort* from, const pixels form, const int* begins,
                                const uint item, const int start, const int depth) {
    const uint row = item / ALONG_CHUNKS, chunk = item % ALONG_CHUNKS;
    const int k = start + (int)chunk * 8, some = MASKED ? chunk_count(form, k, depth) : 8;
    from += some > 0 ? chunk_begin(form, k) : 0;
    EACH_CHUNK
    for (uint i = 0; i < BEGINS; i++) {
        __local ushort* to = tile + ALONG(row + i * (SPAN_N / BEGINS), row, chunk);
        if (MASKED) copy_chunk(to, from + begins[i], some);
        else copy_whole_chunk(to, from + begins[i]);
    }
}
#define COPY_B(tile, from) copy_columns(tile, from, form, begins, item, start, depth)

static inline int column_offset(const pixels form, const int column) {
    const int n = quotient(column, form.plane);
    return n * (int)form.out + (column - n * (int)form.plane.size);
}
#define COLUMN_OFFSET(column) column_offset(form, column)
$else
#define BEGIN_PIXELS
#define COLUMN_OFFSET(column) ((column) * out_n)
$end

$if TERM_PIXELS
static inline void copy_terms(__local ushort* tile, __global const ushort* from, const pixels form, const uint item, const int first,
                              const int count, const int start, const int depth) {
    const uint row = item / (SPAN_N / 8), chunk = item % (SPAN_N / 8), rows = ITEMS / (SPAN_N / 8);
    const int column = first + (int)chunk * 8, some = chunk_count(form, column, count);
    from += some > 0 ? chunk_begin(form, column) : 0;
    EACH_CHUNK
    for (uint i = 0; i < SPAN_K / rows; i++) {
        const uint at = row + i * rows;
        const int k = start + (int)at;
        copy_chunk(tile + ACROSS(at, at, chunk), from + pixel_begin(form, min(k, depth - 1)), k < depth ? some : 0);
    }
}
#define COPY_B(tile, from) copy_terms(tile, from, form, item, column, n, start, depth)
$end
$if not COLUMN_PIXELS and not TERM_PIXELS
#define COPY_B(tile, from) COPY_OPERAND(tile, from, B_ALONG, SPAN_N, column, n, b_step, B_SEGMENTS)
$end

// Starts the copies of both operands' blocks at `start`.
#define COPY_OPERAND(tile, from, along, span, first, count, step, SEGMENTS_OF) \
    if (inner_tile && start + SPAN_K <= depth) copy_inner(tile, from, along, span, item, first, start, step SEGMENTS_OF); \
    else if (along) copy_along(tile, from, span, item, first, count, start, depth, step SEGMENTS_OF); \
    else copy_across(tile, from, span, item, first, count, start, depth, step);
#define COPY(tile, block) { \
        const int start = first_k + (block) / PRODUCTS * SPAN_K; \
        __global const ushort* a_from = a + A_PLANE((block) % PRODUCTS) * a_plane; \
        __global const ushort* b_from = b + B_PLANE((block) % PRODUCTS) * b_plane; \
        COPY_OPERAND(tile, a_from, A_ALONG, SPAN_M, row, m, a_step, A_SEGMENTS) \
        COPY_B(tile + TILE_A, b_from); \
    }

// The planes of the factors of a product, two bits for each product.
#define A_PLANE(product) (A_PLANES >> (product) * 2 & 3)
#define B_PLANE(product) (B_PLANES >> (product) * 2 & 3)

#if PARTS
static NOT_INLINED float whole_sum(__global const float* a, const long a_k, __global const float* b, const long b_k, const int first,
                                   const int last) {
    float sum = 0;
    for (int k = first; k < last; k++) sum = fma(a[k * a_k], b[k * b_k], sum);
    return sum;
}
#else
#define a_plane 0
#define b_plane 0
#endif

// The fragments of a warp's results, by rows i and columns j.
#define EACH_FRAGMENT_OF_WARP \
    EACH_FRAGMENT \
    for (uint i = 0; i < WARP_M / FRAGMENT_M; i++) \
        EACH_FRAGMENT \
        for (uint j = 0; j < WARP_N / FRAGMENT_N; j++)

// Adds the unit's sums to the totals outside it, or begins these, and clears the sums.
#define ADD_SUMS(assign) \
    EACH_FRAGMENT_OF_WARP \
        EACH_FRAGMENT \
        for (uint e = 0; e < SUMS; e++) { \
            totals[i][j][e] assign sums[i][j][e]; \
            sums[i][j][e] = 0; \
        }

$kernel ATTRIBUTES [ITEMS, 1, 1] matrix_unit(read ushort a_, read ushort b_, write RESULT out, product g, int splits,
        int part, long out_part, divisor segments if SEGMENTS, int a_jump if SEGMENTS, int b_jump if SEGMENTS,
        pixels form if COLUMN_PIXELS or TERM_PIXELS, read float* a_whole if PARTS, read float* b_whole if PARTS,
        long a_plane if PARTS, long b_plane if PARTS${operand_parameters}) {
    __local ushort tiles[STAGES * (TILE_A + TILE_B)] ALIGNED_TILES;
    const uint item = get_local_id(0), warp = item / LANES, lane = item % LANES;
    UNIT_MEMORY(g.k)
    const int m = g.m, n = g.n, a_step = A_ALONG ? g.a_row : g.a_k, b_step = B_ALONG ? g.b_n : g.b_k;
    const int rows = (m + SPAN_M - 1) / SPAN_M, columns = (n + SPAN_N - 1) / SPAN_N, number = get_group_id(0);
    const int band = number / (GROUP_ROWS * columns), height = min(GROUP_ROWS, rows - band * GROUP_ROWS);
    const int within = number - band * GROUP_ROWS * columns;
    const int row = (band * GROUP_ROWS + within % height) * SPAN_M, column = within / height * SPAN_N;
    const uint stack = get_global_id(2), z = stack / (uint)splits, matrices = g.inner_batch;
    const long outer = z / matrices, inner = z % matrices;
    const int split = stack - z * (uint)splits, first_k = split * part;
    const long a_begin = g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1];
    const long b_begin = g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1];
    __global const ushort* a = a_ + a_begin;
    __global const ushort* b = b_ + b_begin;
    out += g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1] + split * out_part;
    ${begin_operands}
    SUM sums[WARP_M / FRAGMENT_M][WARP_N / FRAGMENT_N][SUMS];
    EACH_FRAGMENT_OF_WARP
        EACH_FRAGMENT
        for (uint e = 0; e < SUMS; e++) sums[i][j][e] = 0;
#if PARTS
    SUM totals[WARP_M / FRAGMENT_M][WARP_N / FRAGMENT_N][SUMS];
    ADD_SUMS(=)
#endif
    const bool inner_tile = row + SPAN_M <= m && column + SPAN_N <= n;
    const int depth = min((int)g.k, first_k + part), blocks = (depth - first_k + SPAN_K - 1) / SPAN_K * PRODUCTS;
    BEGIN_PIXELS
    ROLLED
    for (int stage = 0; stage < AHEAD; stage++) {
        if (stage < blocks) COPY(tiles + stage * (TILE_A + TILE_B), stage)
        COPIES_END;
    }
    int reading = 0, writing = AHEAD;  // of the ring
    for (int block = 0; block < blocks; block++) {
        COPIES_WAIT;  // for the copies of this block: copies of AHEAD - 1 later ones may be under way
        barrier(CLK_LOCAL_MEM_FENCE);
        if (block + AHEAD < blocks) COPY(tiles + writing * (TILE_A + TILE_B), block + AHEAD)
        COPIES_END;
        __local const ushort* a_tile = tiles + reading * (TILE_A + TILE_B);
        __local const ushort* b_tile = a_tile + TILE_A;
        MULTIPLY_TILES(a_tile, b_tile)
#if PARTS
        if (block % PRODUCTS == PRODUCTS - 1) {
            MULTIPLIES_END;
            ADD_SUMS(+=)
        }
#endif
        reading = reading + 1 == STAGES ? 0 : reading + 1;
        writing = writing + 1 == STAGES ? 0 : writing + 1;
    }
    MULTIPLIES_END;
    const int out_row = g.out_row, out_n = g.out_n;
    EACH_FRAGMENT_OF_WARP {  // all are finished before the first is stored, so that no read waits for a write
        const int first_row = row + (int)FRAGMENT_ROW(i), first_column = column + (int)(WARP_COLUMN + j * FRAGMENT_N);
        EACH_FRAGMENT
        for (uint e = 0; e < SUMS; e++) {
            const int r = min(first_row + (int)(SUM_ROW(lane, e)), m - 1);
            const int inside = min(first_column + (int)(SUM_COLUMN(lane, e)), n - 1);
#if PARTS
            sums[i][j][e] = totals[i][j][e];
            if (!isfinite(sums[i][j][e]))
                sums[i][j][e] = whole_sum(a_whole + a_begin + r * g.a_row, g.a_k, b_whole + b_begin + inside * g.b_n, g.b_k,
                                          first_k, depth);
#endif
            sums[i][j][e] = finished(sums[i][j][e], r, inside, COLUMN_OFFSET(inside)${operand_arguments});
        }
    }
    EACH_FRAGMENT_OF_WARP {
        const int first_row = row + (int)FRAGMENT_ROW(i), first_column = column + (int)(WARP_COLUMN + j * FRAGMENT_N);
        EACH_FRAGMENT
        for (uint e = 0; e < SUMS; e += 1 + PAIRS) {
            const int r = first_row + (int)(SUM_ROW(lane, e)), c = first_column + (int)(SUM_COLUMN(lane, e));
            if (r >= m || c >= n) continue;
#if PAIRS
            STORE_PAIR(sums[i][j][e], sums[i][j][e + 1], out, r * out_row + COLUMN_OFFSET(c));
#else
            STORE_RESULT(sums[i][j][e], out, r * out_row + COLUMN_OFFSET(c));
#endif
        }
    }
}
