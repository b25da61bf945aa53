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
