// contract_matrix_unit/wgmma_128_256
#define DTYPE_BFLOAT16 1
#define SPAN_M 128
#define SPAN_N 256
#define SPAN_K 64
#define WARPS_M 8
#define WARPS_N 1
#define STAGES 4
#define GROUP_ROWS 8
#define A_ALONG 1
#define B_ALONG 0
#define CHUNKS_ALIGNED 1
#define PAIRS 1
#define COLUMN_PIXELS 0
#define TERM_PIXELS 0
#define MASKED 0
#define SEGMENTS 0
#define KIND "bf16"
#define WORDS 1
#define ELEMENT ushort
#define SUM float
#define ELEMENT_X as_float((uint)x << 16)
#define LANES 32
#define FRAGMENT_M 16
#define FRAGMENT_N 8
#define FRAGMENT_K 16
#define SUMS 4
#define SUM_ROW(lane, e) (lane / 4 + e / 2 * 8)
#define SUM_COLUMN(lane, e) (lane % 4 * 2 + e % 2)
#define ATTRIBUTES 
#define UNROLLED 1
#define PARTS 0
#define PRODUCTS 1
#define A_PLANES 0
#define B_PLANES 0
#define RESULT STORAGE
#define STORE_RESULT STORE
#define OFFSET int
#define WGMMA(sums, a, b) asm volatile("//@ { .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, p, 1, 1, 0, 1; }" : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]), "+f"(sums[1][0]), "+f"(sums[1][1]), "+f"(sums[1][2]), "+f"(sums[1][3]), "+f"(sums[2][0]), "+f"(sums[2][1]), "+f"(sums[2][2]), "+f"(sums[2][3]), "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]), "+f"(sums[3][3]), "+f"(sums[4][0]), "+f"(sums[4][1]), "+f"(sums[4][2]), "+f"(sums[4][3]), "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]), "+f"(sums[6][0]), "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]), "+f"(sums[7][0]), "+f"(sums[7][1]), "+f"(sums[7][2]), "+f"(sums[7][3]), "+f"(sums[8][0]), "+f"(sums[8][1]), "+f"(sums[8][2]), "+f"(sums[8][3]), "+f"(sums[9][0]), "+f"(sums[9][1]), "+f"(sums[9][2]), "+f"(sums[9][3]), "+f"(sums[10][0]), "+f"(sums[10][1]), "+f"(sums[10][2]), "+f"(sums[10][3]), "+f"(sums[11][0]), "+f"(sums[11][1]), "+f"(sums[11][2]), "+f"(sums[11][3]), "+f"(sums[12][0]), "+f"(sums[12][1]), "+f"(sums[12][2]), "+f"(sums[12][3]), "+f"(sums[13][0]), "+f"(sums[13][1]), "+f"(sums[13][2]), "+f"(sums[13][3]), "+f"(sums[14][0]), "+f"(sums[14][1]), "+f"(sums[14][2]), "+f"(sums[14][3]), "+f"(sums[15][0]), "+f"(sums[15][1]), "+f"(sums[15][2]), "+f"(sums[15][3]), "+f"(sums[16][0]), "+f"(sums[16][1]), "+f"(sums[16][2]), "+f"(sums[16][3]), "+f"(sums[17][0]), "+f"(sums[17][1]), "+f"(sums[17][2]), "+f"(sums[17][3]), "+f"(sums[18][0]), "+f"(sums[18][1]), "+f"(sums[18][2]), "+f"(sums[18][3]), "+f"(sums[19][0]), "+f"(sums[19][1]), "+f"(sums[19][2]), "+f"(sums[19][3]), "+f"(sums[20][0]), "+f"(sums[20][1]), "+f"(sums[20][2]), "+f"(sums[20][3]), "+f"(sums[21][0]), "+f"(sums[21][1]), "+f"(sums[21][2]), "+f"(sums[21][3]), "+f"(sums[22][0]), "+f"(sums[22][1]), "+f"(sums[22][2]), "+f"(sums[22][3]), "+f"(sums[23][0]), "+f"(sums[23][1]), "+f"(sums[23][2]), "+f"(sums[23][3]), "+f"(sums[24][0]), "+f"(sums[24][1]), "+f"(sums[24][2]), "+f"(sums[24][3]), "+f"(sums[25][0]), "+f"(sums[25][1]), "+f"(sums[25][2]), "+f"(sums[25][3]), "+f"(sums[26][0]), "+f"(sums[26][1]), "+f"(sums[26][2]), "+f"(sums[26][3]), "+f"(sums[27][0]), "+f"(sums[27][1]), "+f"(sums[27][2]), "+f"(sums[27][3]), "+f"(sums[28][0]), "+f"(sums[28][1]), "+f"(sums[28][2]), "+f"(sums[28][3]), "+f"(sums[29][0]), "+f"(sums[29][1]), "+f"(sums[29][2]), "+f"(sums[29][3]), "+f"(sums[30][0]), "+f"(sums[30][1]), "+f"(sums[30][2]), "+f"(sums[30][3]), "+f"(sums[31][0]), "+f"(sums[31][1]), "+f"(sums[31][2]), "+f"(sums[31][3]) : "l"(a), "l"(b) : "memory")
#define finished(sum, row, column, to) (sum)
#define LOOPS __attribute__((vec_type_hint(float16)))
ushort to_bfloat16(float x) {
  uint bits = as_uint(x);
  uint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (ushort)((x != x) ? ((bits >> 16) | 64u) : rounded);
}
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE ushort
#define REAL float
#define LOAD(p, i) as_float((uint)(p)[i] << 16)
#define STORE(x, p, i) ((p)[i] = to_bfloat16(x))
// The strides and offsets of a matrix product: out[z][i][j] = sum_k A[z][i][k] * B[z][k][j], with one stride for each
// index; offsets within a matrix have 32 bits.

typedef struct {
    long m, k, n, inner_batch;
    long a_row, a_k, b_k, b_n, out_row, out_n;
    long a_offset, b_offset, out_offset;
    long a_batch[2], b_batch[2], out_batch[2];
} product;
// Quotients of 32 bits by multiplication (Granlund and Montgomery 1994): of n below 2^31 by a divisor, with the magic
// number and shift computed on the host.

static inline uint quotient_by(const uint n, const uint magic, const uint shift) { return (mul_hi(n, magic) + n) >> shift; }

// A number with its magic number and shift.
typedef struct { long size, magic, shift; } divisor;

static inline int quotient(const int n, const divisor by) { return (int)quotient_by(n, by.magic, by.shift); }
// The tiles of operands in local memory, for contract_matrix_unit.cl and the units that it runs on. All sizes along k
// are in words of 16 bits; an element has WORDS words. Chunks of 8 words are swizzled so that the 8 rows of a fragment
// are in different banks.

#define ITEMS (LANES * WARPS_M * WARPS_N)
#define WARP_M (SPAN_M / WARPS_M)
#define WARP_N (SPAN_N / WARPS_N)
#define TILE_A (SPAN_M * SPAN_K)
#define TILE_B (SPAN_N * SPAN_K)
#define ALONG_CHUNKS (SPAN_K / 8)

// The word at which chunk `chunk` of row `row` begins in a tile of an operand that is contiguous along k: rows of SPAN_K
// words; across it: panels of 64 words, in each a row for each element along k. `low` is congruent to the row modulo 8: a
// number that does not change in loops over fragments, so that swizzles are computed once.
#define SWIZZLE(low) (ALONG_CHUNKS == 4 ? ((low) >> 1) & 3 : (low) & 7)
#define ALONG(row, low, chunk) ((row) * SPAN_K + (((chunk) ^ SWIZZLE(low)) * 8))
#define ACROSS(row, low, chunk) ((chunk) / 8 * (SPAN_K / WORDS * 64) + (row) * 64 + ((((chunk) & 7) ^ ((low) & 7)) * 8))

// The element of row (or column) `index` and number k along k of a tile.
#define AT_ALONG(tile, index, k) \
    (*(__local const ELEMENT*)((tile) + ALONG(index, index, (k) * WORDS / 8) + (k) * WORDS % 8))
#define AT_ACROSS(tile, index, k) \
    (*(__local const ELEMENT*)((tile) + ACROSS(k, k, (index) * WORDS / 8) + (index) * WORDS % 8))
#define A_AT(tile, index, k) (A_ALONG ? AT_ALONG(tile, index, k) : AT_ACROSS(tile, index, k))
#define B_AT(tile, index, k) (B_ALONG ? AT_ALONG(tile, index, k) : AT_ACROSS(tile, index, k))

// Asynchronous copies of NVIDIA's GPUs from compute capability 8.0 on, in inline PTX, and pairs of results. A local pointer is
// a shared address of 32 bits.

#define EACH_FRAGMENT _Pragma("unroll")
#define EACH_CHUNK _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#define COPIES_END asm volatile("cp.async.commit_group;" ::: "memory")
#define COPIES_WAIT_FOR(groups) asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory")
#define ALIGNED_TILES __attribute__((aligned(1024)))

static inline void copy_chunk(__local ushort* to, __global const ushort* from, const int count) {
#if CHUNKS_ALIGNED
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint)(size_t)to), "l"(from), "r"(count * 2) : "memory");
#else
    uint4 chunk = 0;
    if (count > 0) chunk.x = from[0];
    if (count > 1) chunk.x |= (uint)from[1] << 16;
    if (count > 2) chunk.y = from[2];
    if (count > 3) chunk.y |= (uint)from[3] << 16;
    if (count > 4) chunk.z = from[4];
    if (count > 5) chunk.z |= (uint)from[5] << 16;
    if (count > 6) chunk.w = from[6];
    if (count > 7) chunk.w |= (uint)from[7] << 16;
    *(__local uint4*)to = chunk;
#endif
}

static inline void copy_whole_chunk(__local ushort* to, __global const ushort* from) {
#if CHUNKS_ALIGNED
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint)(size_t)to), "l"(from) : "memory");
#else
    copy_chunk(to, from, 8);
#endif
}

#define NOT_INLINED __attribute__((noinline))

#if PARTS || WORDS > 1
#define STORE_PAIR(first, second, out, at) *(__global JOIN(REAL, 2)*)((out) + (at)) = (JOIN(REAL, 2))(first, second)
#else
static inline void store_pair(__global ushort* to, const float first, const float second) {
    uint pair;
    asm("cvt.rn." KIND "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    *(__global uint*)to = pair;
}
#define STORE_PAIR(first, second, out, at) store_pair((__global ushort*)(out) + (at), first, second)
#endif

// The unit wgmma.mma_async.m64nNk16 (TF32: k8) of NVIDIA's GPUs of compute capability 9.0, in inline PTX: a warpgroup, four warps,
// multiplies 64 rows of the tile of A by all columns of that of B, which it reads in local memory by itself. A warp has the sums
// of 16 of the rows, in the layout of fragments of 16 x 8.
//
// NVIDIA's OpenCL compiler does not target sm_90a, so these instructions pass through it as comments (program_cache.py). One
// group of multiplies is under way when the next block begins: the buffer of the block before that one is free for copies.

#define AHEAD (STAGES - 2)
#define UNIT_MEMORY(some)
#define COPIES_WAIT \
    COPIES_WAIT_FOR(AHEAD - 1); \
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define FRAGMENT_ROW(i) ((warp / 4 * (WARP_M / 16) + (i)) * 64 + warp % 4 * 16)
#define WARP_COLUMN 0

// A descriptor of a tile in local memory: its address, the distance of panels of 64 columns, the distance of 8 rows, swizzled in
// rows of 128 bytes.
static inline ulong described(__local const ushort* tile) {
    return (ulong)(((uint)(size_t)tile & 0x3ffff) >> 4) | (ulong)(SPAN_K * 8) << 16 | (ulong)64 << 32 | (ulong)1 << 62;
}
#define A_STEP (A_ALONG ? 2 : 128)  // of a descriptor, for 16 words along k
#define B_STEP (B_ALONG ? 2 : 128)
#define MULTIPLY_TILES(a_tile, b_tile) { \
        const ulong a_described = described(a_tile), b_described = described(b_tile); \
        asm volatile("//@ wgmma.fence.sync.aligned;" ::: "memory"); \
        EACH_FRAGMENT \
        for (uint k = 0; k < SPAN_K / 16; k++) \
            EACH_FRAGMENT \
            for (uint i = 0; i < WARP_M / 16; i++) \
                WGMMA(sums[i], a_described + (warp / 4 * (WARP_M / 16) + i) * (64 * SPAN_K / 8) + k * A_STEP, b_described + k * B_STEP); \
        asm volatile("//@ wgmma.commit_group.sync.aligned;" ::: "memory"); \
        asm volatile("//@ wgmma.wait_group.sync.aligned 1;" ::: "memory"); \
    }
#define MULTIPLIES_END asm volatile("//@ wgmma.wait_group.sync.aligned 0;" ::: "memory")

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


#define BEGIN_PIXELS
#define COLUMN_OFFSET(column) ((column) * out_n)

#define COPY_B(tile, from) COPY_OPERAND(tile, from, B_ALONG, SPAN_N, column, n, b_step, B_SEGMENTS)

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

__kernel ATTRIBUTES __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void matrix_unit(
    __global const ushort *restrict a_,
    __global const ushort *restrict b_,
    __global RESULT *restrict out,
    const product g,
    const int splits,
    const int part,
    const long out_part) {
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
            sums[i][j][e] = finished(sums[i][j][e], r, inside, COLUMN_OFFSET(inside));
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
