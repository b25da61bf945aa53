// attention_unit/attend_on_unit_mma_64_0
#define DTYPE_BFLOAT16 1
#define KIND "bf16"
#define WORDS 1
#define ELEMENT ushort
#define SUM float
#define ELEMENT_X as_float((uint)x << 16)
#define WARPS 4
#define WARP_ROWS 32
#define BLOCK 64
#define WIDTH 64
#define VALUES 64
#define IN_REGISTERS 1
#define CAUSAL 1
#define MASKED 0
#define SCALED 0
#define CHUNKS_ALIGNED 1
#define PAIRS 1
#define PARTS 0
#define BY_KEYS 0
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
// The tiles of contract_attention_unit.cl in local memory, and their products on a matrix unit. A tile has rows of
// WIDTH or VALUES columns, in panels of 64 columns; chunks of 8 are swizzled so that 8 adjacent rows are in different
// banks. With PARTS the operands are float32 in PARTS bfloat16 planes each (matrix_unit_split.cl), and a tile has so
// many planes.

#define ITEMS (32 * WARPS)
#define FRAGMENTS (WARP_ROWS / 16)
#define TILE (WARPS * WARP_ROWS)
#define AHEAD 1  // blocks that are copied before one is used
#define PANEL(rows, row, low, chunk) ((chunk) / 8 * ((rows) * 64) + (row) * 64 + ((((chunk) & 7) ^ ((low) & 7)) * 8))
#define PANELS(columns) (((columns) + 63) / 64)
#define PLANE_SIZE(rows, columns) ((rows) * PANELS(columns) * 64)
#define PLANES (PARTS ? PARTS : 1)
#define TILE_SIZE(rows, columns) (PLANES * PLANE_SIZE(rows, columns))
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

// The unit mma.sync.m16n8k16 of NVIDIA's GPUs from compute capability 8.0 on, in inline PTX, with ldmatrix: elements of 16 bits,
// or half as many of TF32, where each register of a fragment has one element instead of two.

#define UNIT_MEMORY(some)
#define COPIES_WAIT COPIES_WAIT_FOR(AHEAD - 1)
#if WORDS == 2
#define SHAPE "m16n8k8"
#else
#define SHAPE "m16n8k16"
#endif

static inline uint4 rows_of(__local const ushort* from) {
    uint4 part;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(part.x), "=r"(part.y), "=r"(part.z), "=r"(part.w) : "r"((uint)(size_t)from) : "memory");
    return part;
}

static inline uint4 columns_of(__local const ushort* from) {
    uint4 part;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(part.x), "=r"(part.y), "=r"(part.z), "=r"(part.w) : "r"((uint)(size_t)from) : "memory");
    return part;
}

#define MULTIPLY(sums, a, b0, b1) \
    asm("mma.sync.aligned." SHAPE ".row.col.f32." KIND "." KIND ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
        : "+f"((sums)[0]), "+f"((sums)[1]), "+f"((sums)[2]), "+f"((sums)[3]) \
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1))
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
// Attention by an online softmax (Milakov and Gimelshein 2018; Dao et al. 2022, 2023) on a matrix unit of 16-bit operands, with sums
// in float32.
//
// attend_on_unit  a work-group: TILE queries of a head against all keys.
// unit_by_q       the same tile: gradients by q.
// unit_by_k_v     a work-group: TILE keys against all queries of the heads that share them: gradients by k and v.
//
// A warp of 32 work-items has WARP_ROWS rows of the tile; blocks of BLOCK rows of the other side go through two buffers in
// local memory: the next one is copied while one is used. Weights stay in registers: the sums of the first product are, rounded to 16
// bits, the left operand of the second. WIDTH and VALUES are the columns of q and of v, rounded up to a multiple of 16; with
// IN_REGISTERS the fragments of a tile are loaded once. MASKED: 1 by a boolean mask, 2 by an additive mask. With SCALED, scores
// are multiplied by `scale` before masks and the largest one are looked for: for masks that are added, and a scale that
// is not positive.
//
// With PARTS operands are float32 in planes. A product of two is the sum of products of planes with numbers that sum to less than PARTS;
// that of the first planes and the others have separate sums, so that small ones are not cut off, and weighted sums are added up outside
// the unit. Beyond the first planes an Inf or NaN counts as 0, so that results are the same as in float32.

typedef struct {
    long queries, keys, width, values;
    long heads, shared;  // of q in a sample; of q that use one of k and v
    long mask_sample, mask_head, mask_query;
    long q_heads, k_heads;  // of all samples
} attention;

#if PARTS
#pragma OPENCL FP_CONTRACT OFF  // a score minus the largest one of the same bits is 0
#endif
#define NEVER (-INFINITY)
#define LOG2_E 1.44269504f
#define LN_2 0.693147181f

// Starts the copies of `rows` rows of each plane, at a distance of `plane` elements; rows past the last of `count` are
// zeros.
static inline void copy_rows(__local ushort* tile, const int rows, __global const ushort* from, const long plane, const long count,
                             const int width, const int chunks, const int item) {
    for (int p = 0; p < PLANES; p++) {
        EACH_CHUNK
        for (int i = item; i < rows * chunks; i += ITEMS) {
            const int row = i / chunks, chunk = i % chunks, some = row < count ? clamp(width - chunk * 8, 0, 8) : 0;
            copy_chunk(tile + p * PLANE_SIZE(rows, chunks * 8) + PANEL(rows, row, row, chunk),
                       from + p * plane + (some > 0 ? row * width + chunk * 8 : 0), some);
        }
    }
}
#define COPY_WIDTH(tile, rows, from, heads, of_head, count) \
    copy_rows(tile, rows, from, (heads) * (of_head) * width, count, width, WIDTH / 8, item)
#define COPY_VALUES(tile, rows, from, heads, of_head, count) \
    copy_rows(tile, rows, from, (heads) * (of_head) * values, count, values, VALUES / 8, item)

#define EACH_ROW EACH_FRAGMENT for (int i = 0; i < FRAGMENTS; i++)
#define EACH_COLUMN(columns) EACH_FRAGMENT for (int j = 0; j < (columns) / 8; j++)
#define EACH_ELEMENT EACH_FRAGMENT for (int e = 0; e < 4; e++)
#define EACH_PLANE EACH_FRAGMENT for (int p = 0; p < PLANES; p++)
#define CLEAR(sums, columns) EACH_ROW EACH_COLUMN(columns) EACH_ELEMENT sums[i][j][e] = 0
#define TILE_ROW(i, e) (warp * WARP_ROWS + (i) * 16 + lane / 4 + (e) / 2 * 8)
#define COLUMN(j, e) ((j) * 8 + lane % 4 * 2 + (e) % 2)

#if IN_REGISTERS
#define FRAGMENTS_OF(name, columns) uint4 name##_parts[PLANES][FRAGMENTS][(columns) / 16];
#define LOAD_FRAGMENTS(name, columns) \
    EACH_PLANE EACH_ROW EACH_FRAGMENT for (int k = 0; k < (columns); k += 16) \
        name##_parts[p][i][k / 16] = \
            left_fragment(name##_tile + p * PLANE_SIZE(TILE, columns), TILE, warp * WARP_ROWS + i * 16, k, lane);
#define FRAGMENT(name, columns, p, i, k) name##_parts[p][i][(k) / 16]
#else
#define FRAGMENTS_OF(name, columns)
#define LOAD_FRAGMENTS(name, columns)
#define FRAGMENT(name, columns, p, i, k) \
    left_fragment(name##_tile + (p) * PLANE_SIZE(TILE, columns), TILE, warp * WARP_ROWS + (i) * 16, k, lane)
#endif

// sums += the fragment of A times the two of B in `b`.
#define MULTIPLY_PAIR(sums, j, a, b) \
    MULTIPLY(sums[j], a, b.x, b.y); \
    MULTIPLY(sums[(j) + 1], a, b.z, b.w);

#if PARTS > 1
// Without the numbers that are not finite.
static inline uint finite_pair(const uint pair) {
    const uint others = ((pair & 0x7f807f80) + 0x00800080 & 0x80008000) >> 15;
    return pair & ~(others * 0xffff);
}
static inline uint4 finite_parts(const uint4 part) {
    return (uint4)(finite_pair(part.x), finite_pair(part.y), finite_pair(part.z), finite_pair(part.w));
}

// sums += the product of the first planes, rest += the products of the others. BY_KEYS: scores have keys as rows;
// products are added in the order of the other kernels, so that scores have the same bits.
#if BY_KEYS
#define MULTIPLY_BOTH(rest, j, a_early, b_late, a_late, b_early) \
    MULTIPLY_PAIR(rest, j, a_late, b_early) \
    MULTIPLY_PAIR(rest, j, a_early, b_late)
#else
#define MULTIPLY_BOTH(rest, j, a_early, b_late, a_late, b_early) \
    MULTIPLY_PAIR(rest, j, a_early, b_late) \
    MULTIPLY_PAIR(rest, j, a_late, b_early)
#endif
#if PARTS == 3
#define MULTIPLY_SMALLEST(rest, j, a, a_finite, b, b_finite) \
    MULTIPLY_BOTH(rest, j, a_finite, b[2], a[2], b_finite) \
    MULTIPLY_PAIR(rest, j, a[1], b[1])
#else
#define MULTIPLY_SMALLEST(rest, j, a, a_finite, b, b_finite)
#endif
#define MULTIPLY_PLANES(sums, rest, j, a, a_finite, b, b_finite) \
    MULTIPLY_SMALLEST(rest, j, a, a_finite, b, b_finite) \
    MULTIPLY_BOTH(rest, j, a_finite, b[1], a[1], b_finite) \
    MULTIPLY_PAIR(sums, j, a[0], b[0])
#define DECLARE_REST(rest, columns) \
    float rest[FRAGMENTS][(columns) / 8][4]; \
    CLEAR(rest, columns);
#define ADD_REST(sums, rest, columns) EACH_ROW EACH_COLUMN(columns) EACH_ELEMENT sums[i][j][e] += rest[i][j][e];
#else
#define finite_parts(part) part
#define MULTIPLY_PLANES(sums, rest, j, a, a_finite, b, b_finite) MULTIPLY_PAIR(sums, j, a[0], b[0])
#define DECLARE_REST(rest, columns)
#define ADD_REST(sums, rest, columns)
#endif

// sums = the rows of a tile times the rows of a block, along their columns. With PARTS the unit sums AT_ONCE columns, and totals
// are added up outside it.
#define AT_ONCE (PARTS ? 32 : (columns))
#define MULTIPLY_ROWS(sums, name, block_tile, all_columns) { \
    const int columns = all_columns; \
    DECLARE_REST(rest, BLOCK) \
    EACH_FRAGMENT for (int first = 0; first < columns; first += AT_ONCE) { \
        float unit_sums[FRAGMENTS][BLOCK / 8][4]; \
        CLEAR(unit_sums, BLOCK); \
        EACH_FRAGMENT for (int k = first; k < min(columns, first + AT_ONCE); k += 16) { \
            uint4 a_part[FRAGMENTS][PLANES], a_finite[FRAGMENTS]; \
            EACH_ROW { \
                EACH_PLANE a_part[i][p] = FRAGMENT(name, columns, p, i, k); \
                a_finite[i] = finite_parts(a_part[i][0]); \
            } \
            EACH_FRAGMENT for (int j = 0; j < BLOCK; j += 16) { \
                uint4 b_part[PLANES]; \
                EACH_PLANE b_part[p] = along_fragment(block_tile + p * PLANE_SIZE(BLOCK, columns), BLOCK, j, k, lane); \
                const uint4 b_finite = finite_parts(b_part[0]); \
                EACH_ROW { \
                    MULTIPLY_PLANES(unit_sums[i], rest[i], j / 8, a_part[i], a_finite[i], b_part, b_finite) \
                } \
            } \
        } \
        EACH_ROW EACH_COLUMN(BLOCK) EACH_ELEMENT \
            sums[i][j][e] = first == 0 ? unit_sums[i][j][e] : sums[i][j][e] + unit_sums[i][j][e]; \
    } \
    ADD_REST(sums, rest, BLOCK) \
}

// A fragment of A of two adjacent ones of weights; `weights` keeps what is left.
static inline uint4 next_parts(float* weights) {
    const uint4 part = (uint4)(packed(weights[0], weights[1]), packed(weights[2], weights[3]), packed(weights[4], weights[5]),
                               packed(weights[6], weights[7]));
#if PARTS > 1
    const uint pairs[4] = {part.x, part.y, part.z, part.w};
    EACH_FRAGMENT for (int i = 0; i < 4; i++) {
        weights[i * 2] -= as_float(pairs[i] << 16);
        weights[i * 2 + 1] -= as_float(pairs[i] & 0xffff0000);
    }
#endif
    return part;
}

// sums += weights times the columns of a block.
#if PARTS
#define ADD_WEIGHTED(sums, weights, block_tile, columns) { \
    uint4 w_part[BLOCK / 16][FRAGMENTS][PLANES]; \
    EACH_FRAGMENT for (int k = 0; k < BLOCK; k += 16) EACH_ROW { \
        float left[8]; \
        EACH_FRAGMENT for (int e = 0; e < 8; e++) left[e] = weights[i][k / 8 + e / 4][e % 4]; \
        EACH_PLANE w_part[k / 16][i][p] = next_parts(left); \
    } \
    EACH_FRAGMENT for (int c = 0; c < (columns); c += 16) { \
        float block_sums[FRAGMENTS][2][4]; \
        DECLARE_REST(rest, 16) \
        CLEAR(block_sums, 16); \
        EACH_FRAGMENT for (int k = 0; k < BLOCK; k += 16) { \
            uint4 b_part[PLANES]; \
            EACH_PLANE b_part[p] = across_fragment(block_tile + p * PLANE_SIZE(BLOCK, columns), BLOCK, k, c, lane); \
            const uint4 b_finite = finite_parts(b_part[0]); \
            EACH_ROW { \
                const uint4 w_finite = finite_parts(w_part[k / 16][i][0]); \
                MULTIPLY_PLANES(block_sums[i], rest[i], 0, w_part[k / 16][i], w_finite, b_part, b_finite) \
            } \
        } \
        ADD_REST(block_sums, rest, 16) \
        EACH_ROW EACH_COLUMN(16) EACH_ELEMENT sums[i][c / 8 + j][e] += block_sums[i][j][e]; \
    } \
}
#else
#define ADD_WEIGHTED(sums, weights, block_tile, columns) \
    EACH_FRAGMENT for (int k = 0; k < BLOCK; k += 16) { \
        uint4 a_part[FRAGMENTS]; \
        EACH_ROW a_part[i] = next_parts(&weights[i][k / 8][0]); \
        EACH_FRAGMENT for (int j = 0; j < (columns); j += 16) { \
            const uint4 b_part = across_fragment(block_tile, BLOCK, k, j, lane); \
            EACH_ROW { \
                MULTIPLY_PAIR(sums[i], j / 8, a_part[i], b_part) \
            } \
        } \
    }
#endif

// A score under the mask of its head.
static inline float visible(float score, __global const void* mask, const long mask_begin, const long query, const long key,
                            const attention* g, const float scale) {
#if SCALED
    score *= scale;
#endif
    if (query >= g->queries || key >= g->keys || (CAUSAL ? key > query : 0)) return NEVER;
#if MASKED == 1
    return ((__global const uchar*)mask)[mask_begin + query * g->mask_query + key] ? score : NEVER;
#elif MASKED == 2
    return score + ((__global const float*)mask)[mask_begin + query * g->mask_query + key];
#else
    return score;
#endif
}

// Hides scores of a block, if it has one to be hidden: `all_seen` says that it has none.
#define HIDE(scores, all_seen, query, key) \
    if (MASKED || SCALED || !(all_seen)) \
        EACH_ROW EACH_COLUMN(BLOCK) EACH_ELEMENT \
            scores[i][j][e] = visible(scores[i][j][e], mask, mask_begin, query, key, &g, scale);
// The exponent of 2 of a weight: of a score over the largest one, or over the logarithm of the divisor, which are compared as
// COMPARED. With PARTS scores are scaled first, and differences are formed before they are multiplied.
#if PARTS
#define SCALE_SCORES(scores) EACH_ROW EACH_COLUMN(BLOCK) EACH_ELEMENT scores[i][j][e] *= scale;
#define COMPARED(score) (score)
#define EXPONENT(score, compared) (((score) - (compared)) * LOG2_E)
#define LOGARITHM(score) (score)
#define OF_LOGARITHM(lse) (lse)
#else
#define SCALE_SCORES(scores)
#define COMPARED(score) ((score) * to_exponent)
#define EXPONENT(score, compared) fma(score, to_exponent, -(compared))
#define LOGARITHM(score) ((score) * to_exponent * LN_2)
#define OF_LOGARITHM(lse) ((lse) * LOG2_E)
#endif
#define TO_EXPONENT (SCALED ? LOG2_E : scale * LOG2_E)
#define MASK_BEGIN(head) ((head) / g.heads * g.mask_sample + (head) % g.heads * g.mask_head)

#if PAIRS
#define WRITE_PAIR(first, second, to, at, columns) STORE_PAIR(first, second, to, at)
#else
#define WRITE_PAIR(first, second, to, at, columns) \
    STORE(first, to, at); \
    if (c + 1 < (columns)) STORE(second, to, (at) + 1)
#endif
#define WRITE(sums, to, rows, columns, padded, factor) \
    EACH_ROW EACH_COLUMN(padded) EACH_FRAGMENT for (int h = 0; h < 2; h++) { \
        const int r = TILE_ROW(i, h * 2), c = COLUMN(j, 0); \
        if (r < (rows) && c < (columns)) { \
            WRITE_PAIR(sums[i][j][h * 2] * (factor), sums[i][j][h * 2 + 1] * (factor), to, r * (columns) + c, columns); \
        } \
    }

#define NUMBERS \
    const int item = get_local_id(0), warp = item / 32, lane = item % 32; \
    const attention g = geometry; \
    const int width = g.width, values = g.values; \
    const float to_exponent = TO_EXPONENT;
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void attend_on_unit(
    __global const ushort *restrict q,
    __global const ushort *restrict k,
    __global const ushort *restrict v,
    __global const void *restrict mask,
    __global STORAGE *restrict out,
    __global float *restrict lse,
    const attention geometry,
    const float scale) {
    __local ushort q_tile[TILE_SIZE(TILE, WIDTH)] ALIGNED_TILES, k_tiles[2 * TILE_SIZE(BLOCK, WIDTH)] ALIGNED_TILES;
    __local ushort v_tiles[2 * TILE_SIZE(BLOCK, VALUES)] ALIGNED_TILES;
    UNIT_MEMORY(geometry.queries)
    NUMBERS
    const long head = get_group_id(1), tile = CAUSAL ? get_num_groups(0) - 1 - get_group_id(0) : get_group_id(0);
    const long first = tile * TILE, queries = min((long)TILE, g.queries - first), mask_begin = MASK_BEGIN(head);
    const long end = CAUSAL ? min(g.keys, first + queries) : g.keys;
    q += (head * g.queries + first) * width;
    k += head / g.shared * g.keys * width;
    v += head / g.shared * g.keys * values;
    float sums[FRAGMENTS][VALUES / 8][4], top[FRAGMENTS][2], total[FRAGMENTS][2];
    CLEAR(sums, VALUES);
    EACH_ROW EACH_FRAGMENT for (int h = 0; h < 2; h++) {
        top[i][h] = NEVER;
        total[i][h] = 0;
    }
    FRAGMENTS_OF(q, WIDTH)
    COPY_WIDTH(q_tile, TILE, q, g.q_heads, g.queries, queries);
    COPY_WIDTH(k_tiles, BLOCK, k, g.k_heads, g.keys, end);
    COPY_VALUES(v_tiles, BLOCK, v, g.k_heads, g.keys, end);
    COPIES_END;
    int reading = 0;
    for (long start = 0; start < end; start += BLOCK) {
        COPIES_WAIT;
        barrier(CLK_LOCAL_MEM_FENCE);
        const long next = start + BLOCK;
        if (next < end) {
            COPY_WIDTH(k_tiles + (1 - reading) * TILE_SIZE(BLOCK, WIDTH), BLOCK, k + next * width, g.k_heads, g.keys, end - next);
            COPY_VALUES(v_tiles + (1 - reading) * TILE_SIZE(BLOCK, VALUES), BLOCK, v + next * values, g.k_heads, g.keys, end - next);
        }
        COPIES_END;
        __local const ushort* k_tile = k_tiles + reading * TILE_SIZE(BLOCK, WIDTH);
        __local const ushort* v_tile = v_tiles + reading * TILE_SIZE(BLOCK, VALUES);
        if (start == 0) {
            LOAD_FRAGMENTS(q, WIDTH)
        }
        float scores[FRAGMENTS][BLOCK / 8][4];
        MULTIPLY_ROWS(scores, q, k_tile, WIDTH)
        SCALE_SCORES(scores)
        HIDE(scores, next <= g.keys && (!CAUSAL || next <= first + 1), first + TILE_ROW(i, e), start + COLUMN(j, e))
        EACH_ROW EACH_FRAGMENT for (int h = 0; h < 2; h++) {
            float most = top[i][h];
            EACH_COLUMN(BLOCK) most = fmax(most, fmax(scores[i][j][h * 2], scores[i][j][h * 2 + 1]));
            most = QUAD_MAX(most);
            const float largest = most == NEVER ? 0.0f : COMPARED(most);
            const float factor = exponential(EXPONENT(top[i][h], largest));
            total[i][h] *= factor;
            EACH_COLUMN(BLOCK) EACH_FRAGMENT for (int e = h * 2; e < h * 2 + 2; e++) {
                scores[i][j][e] = exponential(EXPONENT(scores[i][j][e], largest));
                total[i][h] += scores[i][j][e];
            }
            EACH_COLUMN(VALUES) EACH_FRAGMENT for (int e = h * 2; e < h * 2 + 2; e++) sums[i][j][e] *= factor;
            top[i][h] = most;
        }
        ADD_WEIGHTED(sums, scores, v_tile, VALUES)
        reading = 1 - reading;
    }
    EACH_ROW EACH_FRAGMENT for (int h = 0; h < 2; h++) {
        total[i][h] = QUAD_SUM(total[i][h]);
        const int row = TILE_ROW(i, h * 2);
        if (lane % 4 == 0 && row < queries)
            lse[head * g.queries + first + row] = total[i][h] == 0 ? INFINITY : LOGARITHM(top[i][h]) + log(total[i][h]);
        total[i][h] = total[i][h] == 0 ? 0.0f : 1 / total[i][h];
    }
    out += (head * g.queries + first) * values;
    WRITE(sums, out, queries, values, VALUES, total[i][h])
}
