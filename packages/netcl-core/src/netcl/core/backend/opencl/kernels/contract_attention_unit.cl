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
// IN_REGISTERS the fragments of a tile are loaded once. MASKED: 1 by what may be seen, 2 by what is added. With SCALED, scores
// are multiplied by `scale` before masks and the largest one are looked for: for masks that are added, and a scale that is not positive.

typedef struct {
    long queries, keys, width, values;
    long heads, shared;  // of q in a sample; of q that use one of k and v
    long mask_sample, mask_head, mask_query;
} attention;

#define NEVER (-INFINITY)
#define LOG2_E 1.44269504f
#define LN_2 0.693147181f

// Starts the copies of `rows` rows; those past the last of `count` are zeros.
static inline void copy_rows(__local ushort* tile, const int rows, __global const ushort* from, const long count, const int width,
                             const int chunks, const int item) {
    EACH_CHUNK
    for (int i = item; i < rows * chunks; i += ITEMS) {
        const int row = i / chunks, chunk = i % chunks, some = row < count ? clamp(width - chunk * 8, 0, 8) : 0;
        copy_chunk(tile + PANEL(rows, row, row, chunk), from + (some > 0 ? row * width + chunk * 8 : 0), some);
    }
}

#define EACH_ROW EACH_FRAGMENT for (int i = 0; i < FRAGMENTS; i++)
#define EACH_COLUMN(columns) EACH_FRAGMENT for (int j = 0; j < (columns) / 8; j++)
#define EACH_ELEMENT EACH_FRAGMENT for (int e = 0; e < 4; e++)
#define CLEAR(sums, columns) EACH_ROW EACH_COLUMN(columns) EACH_ELEMENT sums[i][j][e] = 0
#define TILE_ROW(i, e) (warp * WARP_ROWS + (i) * 16 + lane / 4 + (e) / 2 * 8)
#define COLUMN(j, e) ((j) * 8 + lane % 4 * 2 + (e) % 2)

#if IN_REGISTERS
#define FRAGMENTS_OF(name, columns) uint4 name##_parts[FRAGMENTS][(columns) / 16];
#define LOAD_FRAGMENTS(name, columns) \
    EACH_ROW EACH_FRAGMENT for (int k = 0; k < (columns); k += 16) \
        name##_parts[i][k / 16] = left_fragment(name##_tile, TILE, warp * WARP_ROWS + i * 16, k, lane);
#define FRAGMENT(name, i, k) name##_parts[i][(k) / 16]
#else
#define FRAGMENTS_OF(name, columns)
#define LOAD_FRAGMENTS(name, columns)
#define FRAGMENT(name, i, k) left_fragment(name##_tile, TILE, warp * WARP_ROWS + (i) * 16, k, lane)
#endif

// sums = the rows of a tile times the rows of a block, along their columns.
#define MULTIPLY_ROWS(sums, name, block_tile, columns) \
    CLEAR(sums, BLOCK); \
    EACH_FRAGMENT for (int k = 0; k < (columns); k += 16) { \
        uint4 a_part[FRAGMENTS]; \
        EACH_ROW a_part[i] = FRAGMENT(name, i, k); \
        EACH_FRAGMENT for (int j = 0; j < BLOCK; j += 16) { \
            const uint4 b_part = along_fragment(block_tile, BLOCK, j, k, lane); \
            EACH_ROW { \
                MULTIPLY(sums[i][j / 8], a_part[i], b_part.x, b_part.y); \
                MULTIPLY(sums[i][j / 8 + 1], a_part[i], b_part.z, b_part.w); \
            } \
        } \
    }

// sums += weights, rounded to 16 bits, times the columns of a block.
#define ADD_WEIGHTED(sums, weights, block_tile, columns) \
    EACH_FRAGMENT for (int k = 0; k < BLOCK; k += 16) { \
        uint4 a_part[FRAGMENTS]; \
        EACH_ROW a_part[i] = (uint4)( \
            packed(weights[i][k / 8][0], weights[i][k / 8][1]), packed(weights[i][k / 8][2], weights[i][k / 8][3]), \
            packed(weights[i][k / 8 + 1][0], weights[i][k / 8 + 1][1]), packed(weights[i][k / 8 + 1][2], weights[i][k / 8 + 1][3])); \
        EACH_FRAGMENT for (int j = 0; j < (columns); j += 16) { \
            const uint4 b_part = across_fragment(block_tile, BLOCK, k, j, lane); \
            EACH_ROW { \
                MULTIPLY(sums[i][j / 8], a_part[i], b_part.x, b_part.y); \
                MULTIPLY(sums[i][j / 8 + 1], a_part[i], b_part.z, b_part.w); \
            } \
        } \
    }

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

#define KERNEL __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
#define NUMBERS \
    const int item = get_local_id(0), warp = item / 32, lane = item % 32; \
    const attention g = geometry; \
    const int width = g.width, values = g.values; \
    const float to_exponent = TO_EXPONENT;
