// contract_attention_gpu/float32_8_8_8_1
#define DTYPE_FLOAT32 1
#define EDGE 8
#define ROWS 8
#define COLUMNS 8
#define CHUNKS 1
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// Attention by an online softmax (Milakov and Gimelshein 2018; Dao et al. 2022) for devices with many small cores: the
// scores of a tile of queries and a block of keys are all that exists at a time.
//
// attend_tiles      work-group EDGE x EDGE: a tile of TILE queries of a head against all keys.
// gradients_by_q    the same tile: gradients by q.
// gradients_by_k_v  a tile of TILE keys against all queries of the heads that share them: gradients by k and v.
//
// A work-item has ROWS adjacent rows of the tile: their scores with COLUMNS adjacent rows of a block, and ROWS adjacent columns of
// every TILE columns of the results; CHUNKS times TILE columns suffice for both q and v. Operands of products pass through local
// memory in slices of SLICE, transposed so that a work-item reads vectors of four: (2 * SLICE + BLOCK) * STEP elements. lse: see
// contract_attention_cpu.cl. Contraction of a*b+c into one rounding is allowed here.

#define TILE (ROWS * EDGE)
#define BLOCK (COLUMNS * EDGE)
#define SLICE 16
#define STEP (TILE + 4)
#define NEVER ((REAL)(-INFINITY))
#define GROUP __attribute__((reqd_work_group_size(EDGE, EDGE, 1)))
#define FENCE barrier(CLK_LOCAL_MEM_FENCE)
#define REAL4 JOIN(REAL, 4)
#define TILES __local REAL a_tile[SLICE * STEP] ALIGNED, b_tile[SLICE * STEP] ALIGNED, weights[BLOCK * STEP] ALIGNED
#define ALIGNED __attribute__((aligned(32)))

typedef struct {
    long queries, keys, width, values;
    long heads, shared;  // of q in a sample; of q that use one of k and v
    long causal, masked; // masked: 1 by what may be seen, 2 by what is added
    long mask_sample, mask_head, mask_query;
} attention;

#define READ(to, from, count) \
    _Pragma("unroll") for (int i = 0; i < (count); i += 4) { \
        const REAL4 four = *(__local const REAL4*)((from) + i); \
        to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w; \
    }

// A slice of `rows` rows of an operand, from column `start` on, transposed; zeros behind the last row and column.
static inline void copy_slice(__local REAL* tile, const int rows, __global const STORAGE* from, const long count, const long start,
                              const long width, const int item) {
    for (int i = item; i < rows * SLICE; i += EDGE * EDGE) {
        const int row = i / SLICE, column = i % SLICE;
        tile[column * STEP + row] = row < count && start + column < width ? LOAD(from, row * width + start + column) : (REAL)0;
    }
}

// sums[r][c] = the product of row y * ROWS + r of a and row x * COLUMNS + c of b; rows behind the last count as zeros.
static inline void row_products(REAL sums[ROWS][COLUMNS], __global const STORAGE* a, const long a_rows, __global const STORAGE* b,
                                const long b_rows, const long width, __local REAL* a_tile, __local REAL* b_tile) {
    const int x = get_local_id(0), y = get_local_id(1), item = y * EDGE + x;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) sums[r][c] = 0;
    for (long start = 0; start < width; start += SLICE) {
        copy_slice(a_tile, TILE, a, a_rows, start, width, item);
        copy_slice(b_tile, BLOCK, b, b_rows, start, width, item);
        FENCE;
#pragma unroll
        for (int k = 0; k < SLICE; k++) {
            REAL left[ROWS], right[COLUMNS];
            READ(left, a_tile + k * STEP + y * ROWS, ROWS)
            READ(right, b_tile + k * STEP + x * COLUMNS, COLUMNS)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) sums[r][c] += left[r] * right[c];
        }
        FENCE;
    }
}

// Stores scores as the transposed left operand of add_rows.
static inline void keep_weights(__local REAL* weights, REAL scores[ROWS][COLUMNS]) {
    const int x = get_local_id(0), y = get_local_id(1);
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
#pragma unroll
        for (int r = 0; r < ROWS; r += 4)
            *(__local REAL4*)(weights + (x * COLUMNS + c) * STEP + y * ROWS + r) =
                (REAL4)(scores[r][c], scores[r + 1][c], scores[r + 2][c], scores[r + 3][c]);
}

// sums[r][..] += row y * ROWS + r of weights, a block, times the rows of b.
static inline void add_rows(REAL sums[ROWS][ROWS * CHUNKS], __local const REAL* weights, __global const STORAGE* b, const long rows,
                            const long width, __local REAL* tile) {
    const int x = get_local_id(0), y = get_local_id(1), item = y * EDGE + x;
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        for (long start = 0; start < min((long)BLOCK, rows) && chunk * TILE < width; start += SLICE) {
            for (int i = item; i < SLICE * TILE; i += EDGE * EDGE) {
                const long row = start + i / TILE, column = chunk * TILE + i % TILE;
                tile[i / TILE * STEP + i % TILE] = row < rows && column < width ? LOAD(b, row * width + column) : (REAL)0;
            }
            FENCE;
#pragma unroll
            for (int k = 0; k < SLICE; k++) {
                REAL left[ROWS], right[ROWS];
                READ(left, weights + (start + k) * STEP + y * ROWS, ROWS)
                READ(right, tile + k * STEP + x * ROWS, ROWS)
#pragma unroll
                for (int r = 0; r < ROWS; r++)
#pragma unroll
                    for (int c = 0; c < ROWS; c++) sums[r][chunk * ROWS + c] += left[r] * right[c];
            }
            FENCE;
        }
}

static inline void write_rows(REAL sums[ROWS][ROWS * CHUNKS], __global STORAGE* to, const long rows, const long width) {
    const int x = get_local_id(0), y = get_local_id(1);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int i = 0; i < ROWS * CHUNKS; i++) {
            const long row = y * ROWS + r, column = i / ROWS * TILE + x * ROWS + i % ROWS;
            if (row < rows && column < width) STORE(sums[r][i], to, row * width + column);
        }
}

// A score under the mask of its head, scaled.
static inline REAL visible(const REAL score, __global const void* mask, const long head, const long query, const long key,
                           const attention* g) {
    if (query >= g->queries || key >= g->keys || (g->causal && key > query)) return NEVER;
    if (!g->masked) return score;
    const long at = head / g->heads * g->mask_sample + head % g->heads * g->mask_head + query * g->mask_query + key;
    if (g->masked == 1) return ((__global const uchar*)mask)[at] ? score : NEVER;
    return score + ((__global const REAL*)mask)[at];
}

#define EACH_ROW _Pragma("unroll") for (int r = 0; r < ROWS; r++)
#define EACH_COLUMN _Pragma("unroll") for (int c = 0; c < COLUMNS; c++)
#define EACH_SUM _Pragma("unroll") for (int i = 0; i < ROWS * CHUNKS; i++)

__kernel GROUP void attend_tiles(__global const STORAGE* restrict q, __global const STORAGE* restrict k,
                           __global const STORAGE* restrict v, __global const void* restrict mask,
                           __global STORAGE* restrict out, __global REAL* restrict lse, const attention geometry, const REAL scale) {
    TILES;
    const attention g = geometry;
    const int x = get_local_id(0), y = get_local_id(1);
    const long head = get_group_id(1), first = (long)get_group_id(0) * TILE, queries = min((long)TILE, g.queries - first);
    REAL scores[ROWS][COLUMNS], sums[ROWS][ROWS * CHUNKS], top[ROWS], total[ROWS];
    EACH_ROW {
        top[r] = NEVER;
        total[r] = 0;
        EACH_SUM sums[r][i] = 0;
    }
    q += (head * g.queries + first) * g.width;
    k += head / g.shared * g.keys * g.width;
    v += head / g.shared * g.keys * g.values;
    const long end = g.causal ? min(g.keys, first + queries) : g.keys;
    for (long start = 0; start < end; start += BLOCK) {
        row_products(scores, q, queries, k + start * g.width, end - start, g.width, a_tile, b_tile);
        EACH_ROW {
            REAL most = NEVER;
            EACH_COLUMN {
                scores[r][c] = visible(scores[r][c] * scale, mask, head, first + y * ROWS + r, start + x * COLUMNS + c, &g);
                most = fmax(most, scores[r][c]);
            }
            a_tile[x * STEP + y * ROWS + r] = most;
        }
        FENCE;
        EACH_ROW {
            REAL most = top[r];
            for (int i = 0; i < EDGE; i++) most = fmax(most, a_tile[i * STEP + y * ROWS + r]);
            const REAL finite = most == NEVER ? (REAL)0 : most, factor = exp(top[r] - finite);
            total[r] *= factor;
            EACH_COLUMN {
                scores[r][c] = exp(scores[r][c] - finite);
                total[r] += scores[r][c];  // of this work-item's columns; added up at the end
            }
            EACH_SUM sums[r][i] *= factor;
            top[r] = most;
        }
        keep_weights(weights, scores);
        FENCE;
        add_rows(sums, weights, v + start * g.values, end - start, g.values, a_tile);
    }
    FENCE;
    EACH_ROW a_tile[x * STEP + y * ROWS + r] = total[r];
    FENCE;
    EACH_ROW {
        REAL sum = 0;
        for (int i = 0; i < EDGE; i++) sum += a_tile[i * STEP + y * ROWS + r];
        const REAL inverse = sum == 0 ? (REAL)0 : 1 / sum;
        EACH_SUM sums[r][i] *= inverse;
        if (x == 0 && y * ROWS + r < queries)
            lse[head * g.queries + first + y * ROWS + r] = sum == 0 ? (REAL)INFINITY : top[r] + log(sum);
    }
    write_rows(sums, out + (head * g.queries + first) * g.values, queries, g.values);
}

__kernel GROUP void gradients_by_q(__global const STORAGE* restrict grad, __global const STORAGE* restrict q,
                                __global const STORAGE* restrict k, __global const STORAGE* restrict v,
                                __global const void* restrict mask, __global const REAL* restrict lse,
                                __global const REAL* restrict inner, __global STORAGE* restrict q_grad,
                                const attention geometry, const REAL scale) {
    TILES;
    const attention g = geometry;
    const int x = get_local_id(0), y = get_local_id(1);
    const long head = get_group_id(1), first = (long)get_group_id(0) * TILE, queries = min((long)TILE, g.queries - first);
    REAL scores[ROWS][COLUMNS], means[ROWS][COLUMNS], sums[ROWS][ROWS * CHUNKS], divided[ROWS], mean[ROWS];
    EACH_ROW {
        const bool inside = y * ROWS + r < queries;
        divided[r] = inside ? lse[head * g.queries + first + y * ROWS + r] : (REAL)INFINITY;
        mean[r] = inside ? inner[head * g.queries + first + y * ROWS + r] : (REAL)0;
        EACH_SUM sums[r][i] = 0;
    }
    q += (head * g.queries + first) * g.width;
    grad += (head * g.queries + first) * g.values;
    k += head / g.shared * g.keys * g.width;
    v += head / g.shared * g.keys * g.values;
    const long end = g.causal ? min(g.keys, first + queries) : g.keys;
    for (long start = 0; start < end; start += BLOCK) {
        row_products(scores, q, queries, k + start * g.width, end - start, g.width, a_tile, b_tile);
        row_products(means, grad, queries, v + start * g.values, end - start, g.values, a_tile, b_tile);
        EACH_ROW EACH_COLUMN {
            const long query = first + y * ROWS + r, key = start + x * COLUMNS + c;
            const REAL weight = exp(visible(scores[r][c] * scale, mask, head, query, key, &g) - divided[r]);
            means[r][c] = weight * (means[r][c] - mean[r]) * scale;
        }
        keep_weights(weights, means);
        FENCE;
        add_rows(sums, weights, k + start * g.width, end - start, g.width, a_tile);
    }
    write_rows(sums, q_grad + (head * g.queries + first) * g.width, queries, g.width);
}

__kernel GROUP void gradients_by_k_v(__global const STORAGE* restrict grad, __global const STORAGE* restrict q,
                                  __global const STORAGE* restrict k, __global const STORAGE* restrict v,
                                  __global const void* restrict mask, __global const REAL* restrict lse,
                                  __global const REAL* restrict inner, __global STORAGE* restrict k_grad,
                                  __global STORAGE* restrict v_grad, const attention geometry, const REAL scale) {
    TILES;
    const attention g = geometry;
    const int x = get_local_id(0), y = get_local_id(1);
    const long shared = get_group_id(1), first = (long)get_group_id(0) * TILE, keys = min((long)TILE, g.keys - first);
    REAL scores[ROWS][COLUMNS], means[ROWS][COLUMNS], k_sums[ROWS][ROWS * CHUNKS], v_sums[ROWS][ROWS * CHUNKS];
    EACH_ROW EACH_SUM k_sums[r][i] = v_sums[r][i] = 0;
    k += (shared * g.keys + first) * g.width;
    v += (shared * g.keys + first) * g.values;
    for (long head = shared * g.shared; head < (shared + 1) * g.shared; head++)
        for (long start = g.causal ? first : 0; start < g.queries; start += BLOCK) {
            const long at = head * g.queries + start, queries = g.queries - start;
            row_products(scores, k, keys, q + at * g.width, queries, g.width, a_tile, b_tile);
            row_products(means, v, keys, grad + at * g.values, queries, g.values, a_tile, b_tile);
            EACH_COLUMN {
                const long query = x * COLUMNS + c;
                const REAL divided = query < queries ? lse[at + query] : (REAL)INFINITY;
                const REAL mean = query < queries ? inner[at + query] : (REAL)0;
                EACH_ROW {
                    const long key = first + y * ROWS + r;
                    scores[r][c] = exp(visible(scores[r][c] * scale, mask, head, start + query, key, &g) - divided);
                    means[r][c] = scores[r][c] * (means[r][c] - mean) * scale;
                }
            }
            keep_weights(weights, scores);
            FENCE;
            add_rows(v_sums, weights, grad + at * g.values, queries, g.values, a_tile);
            keep_weights(weights, means);
            FENCE;
            add_rows(k_sums, weights, q + at * g.width, queries, g.width, a_tile);
        }
    write_rows(k_sums, k_grad + (shared * g.keys + first) * g.width, keys, g.width);
    write_rows(v_sums, v_grad + (shared * g.keys + first) * g.values, keys, g.values);
}
