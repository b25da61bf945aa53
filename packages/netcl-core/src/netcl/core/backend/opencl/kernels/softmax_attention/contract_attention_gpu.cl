// Attention by an online softmax (Milakov and Gimelshein 2018; Dao et al. 2022) for devices with many small cores: only
// the scores of one tile of queries and one tile of keys exist at a time.
//
// attend_tiles      work-group EDGE x EDGE: a tile of TILE queries of a head against all keys.
// gradients_by_q    the same tile: gradients by q.
// gradients_by_k_v  a tile of TILE keys against all queries of the heads that share them: gradients by k and v.
//
// A work-item has 4 x 4 of a tile's scores and 4 x 4 of every TILE columns of the results, rows and columns at distances of EDGE;
// CHUNKS times TILE columns suffice for both q and v. Local memory: (2 * EDGE + TILE) * (TILE + 1) elements. lse: see
// contract_attention_cpu.cl. Contraction of a*b+c into one rounding is allowed here.

#define TILE (4 * EDGE)
#define STEP (TILE + 1)
#define NEVER ((REAL)(-INFINITY))
#define GROUP __attribute__((reqd_work_group_size(EDGE, EDGE, 1)))
#define FENCE barrier(CLK_LOCAL_MEM_FENCE)

typedef struct {
    long queries, keys, width, values;
    long heads, shared;  // of q in a sample; of q that use one of k and v
    long causal, masked; // masked: 1 by a boolean mask, 2 by an additive mask
    long mask_sample, mask_head, mask_query;
} attention;

// sums[r][c] = the product of row y + r * EDGE of a and row x + c * EDGE of b; rows behind the last count as zeros.
static inline void row_products(REAL sums[4][4], __global const STORAGE* a, const long a_rows, __global const STORAGE* b,
                                const long b_rows, const long width, __local REAL* a_tile, __local REAL* b_tile) {
    const int x = get_local_id(0), y = get_local_id(1);
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) sums[r][c] = 0;
    for (long start = 0; start < width; start += EDGE) {
        for (int i = 0; i < 4; i++) {
            const long row = y + i * EDGE, at = row * width + start + x;
            const bool inside = start + x < width;
            a_tile[x * STEP + row] = inside && row < a_rows ? LOAD(a, at) : (REAL)0;
            b_tile[x * STEP + row] = inside && row < b_rows ? LOAD(b, at) : (REAL)0;
        }
        FENCE;
        for (int k = 0; k < EDGE; k++)
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 4; c++)
                    sums[r][c] += a_tile[k * STEP + y + r * EDGE] * b_tile[k * STEP + x + c * EDGE];
        FENCE;
    }
}

// sums[r][..] += row y + r * EDGE of weights, a tile, times the rows of b.
static inline void add_rows(REAL sums[4][4 * CHUNKS], __local const REAL* weights, __global const STORAGE* b, const long rows,
                            const long width, __local REAL* tile) {
    const int x = get_local_id(0), y = get_local_id(1);
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        for (long start = 0; start < min((long)TILE, rows) && chunk * TILE < width; start += EDGE) {
            for (int c = 0; c < 4; c++) {
                const long column = chunk * TILE + x + c * EDGE;
                tile[y * STEP + x + c * EDGE] =
                    start + y < rows && column < width ? LOAD(b, (start + y) * width + column) : (REAL)0;
            }
            FENCE;
            for (int k = 0; k < EDGE; k++)
#pragma unroll
                for (int r = 0; r < 4; r++)
#pragma unroll
                    for (int c = 0; c < 4; c++)
                        sums[r][chunk * 4 + c] += weights[(y + r * EDGE) * STEP + start + k] * tile[k * STEP + x + c * EDGE];
            FENCE;
        }
}

static inline void write_rows(REAL sums[4][4 * CHUNKS], __global STORAGE* to, const long rows, const long width) {
    const int x = get_local_id(0), y = get_local_id(1);
#pragma unroll
    for (int i = 0; i < 4 * CHUNKS; i++)
#pragma unroll
        for (int r = 0; r < 4; r++)
            if (y + r * EDGE < rows && x + i * EDGE < width) STORE(sums[r][i], to, (y + r * EDGE) * width + x + i * EDGE);
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

$kernel GROUP attend_tiles(read STORAGE q, read STORAGE k, read STORAGE v, read void mask, write STORAGE out,
        write REAL lse, attention geometry, REAL scale) {
    __local REAL a_tile[EDGE * STEP], b_tile[EDGE * STEP], weights[TILE * STEP];
    const attention g = geometry;
    const int x = get_local_id(0), y = get_local_id(1);
    const long head = get_group_id(1), first = (long)get_group_id(0) * TILE, queries = min((long)TILE, g.queries - first);
    REAL scores[4][4], sums[4][4 * CHUNKS], top[4], total[4];
    for (int r = 0; r < 4; r++) {
        top[r] = NEVER;
        total[r] = 0;
        for (int i = 0; i < 4 * CHUNKS; i++) sums[r][i] = 0;
    }
    q += (head * g.queries + first) * g.width;
    k += head / g.shared * g.keys * g.width;
    v += head / g.shared * g.keys * g.values;
    const long end = g.causal ? min(g.keys, first + queries) : g.keys;
    for (long start = 0; start < end; start += TILE) {
        row_products(scores, q, queries, k + start * g.width, end - start, g.width, a_tile, b_tile);
        for (int r = 0; r < 4; r++) {
            REAL most = NEVER;
            for (int c = 0; c < 4; c++) {
                const long query = first + y + r * EDGE, key = start + x + c * EDGE;
                scores[r][c] = visible(scores[r][c] * scale, mask, head, query, key, &g);
                most = fmax(most, scores[r][c]);
            }
            a_tile[(y + r * EDGE) * EDGE + x] = most;
        }
        FENCE;
        for (int r = 0; r < 4; r++) {
            REAL most = top[r], sum = 0;
            for (int i = 0; i < EDGE; i++) most = fmax(most, a_tile[(y + r * EDGE) * EDGE + i]);
            const REAL finite = most == NEVER ? (REAL)0 : most;
            for (int c = 0; c < 4; c++) {
                const REAL weight = exp(scores[r][c] - finite);
                weights[(y + r * EDGE) * STEP + x + c * EDGE] = weight;
                sum += weight;
            }
            b_tile[(y + r * EDGE) * EDGE + x] = sum;
            const REAL factor = exp(top[r] - finite);
            total[r] *= factor;
            for (int i = 0; i < 4 * CHUNKS; i++) sums[r][i] *= factor;
            top[r] = most;
        }
        FENCE;
        for (int r = 0; r < 4; r++) {
            REAL sum = 0;
            for (int i = 0; i < EDGE; i++) sum += b_tile[(y + r * EDGE) * EDGE + i];
            total[r] += sum;
        }
        add_rows(sums, weights, v + start * g.values, end - start, g.values, a_tile);
    }
    for (int r = 0; r < 4; r++) {
        const REAL inverse = total[r] == 0 ? (REAL)0 : 1 / total[r];
        for (int i = 0; i < 4 * CHUNKS; i++) sums[r][i] *= inverse;
        if (x == 0 && y + r * EDGE < queries)
            lse[head * g.queries + first + y + r * EDGE] = total[r] == 0 ? (REAL)INFINITY : top[r] + log(total[r]);
    }
    write_rows(sums, out + (head * g.queries + first) * g.values, queries, g.values);
}

$kernel GROUP gradients_by_q(read STORAGE grad, read STORAGE q, read STORAGE k, read STORAGE v, read void mask,
        read REAL lse, read REAL inner, write STORAGE q_grad, attention geometry, REAL scale) {
    __local REAL a_tile[EDGE * STEP], b_tile[EDGE * STEP], slopes[TILE * STEP];
    const attention g = geometry;
    const int x = get_local_id(0), y = get_local_id(1);
    const long head = get_group_id(1), first = (long)get_group_id(0) * TILE, queries = min((long)TILE, g.queries - first);
    REAL scores[4][4], means[4][4], sums[4][4 * CHUNKS], divided[4], mean[4];
    for (int r = 0; r < 4; r++) {
        const bool inside = y + r * EDGE < queries;
        divided[r] = inside ? lse[head * g.queries + first + y + r * EDGE] : (REAL)INFINITY;
        mean[r] = inside ? inner[head * g.queries + first + y + r * EDGE] : (REAL)0;
        for (int i = 0; i < 4 * CHUNKS; i++) sums[r][i] = 0;
    }
    q += (head * g.queries + first) * g.width;
    grad += (head * g.queries + first) * g.values;
    k += head / g.shared * g.keys * g.width;
    v += head / g.shared * g.keys * g.values;
    const long end = g.causal ? min(g.keys, first + queries) : g.keys;
    for (long start = 0; start < end; start += TILE) {
        row_products(scores, q, queries, k + start * g.width, end - start, g.width, a_tile, b_tile);
        row_products(means, grad, queries, v + start * g.values, end - start, g.values, a_tile, b_tile);
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 4; c++) {
                const long query = first + y + r * EDGE, key = start + x + c * EDGE;
                const REAL weight = exp(visible(scores[r][c] * scale, mask, head, query, key, &g) - divided[r]);
                slopes[(y + r * EDGE) * STEP + x + c * EDGE] = weight * (means[r][c] - mean[r]) * scale;
            }
        FENCE;
        add_rows(sums, slopes, k + start * g.width, end - start, g.width, a_tile);
    }
    write_rows(sums, q_grad + (head * g.queries + first) * g.width, queries, g.width);
}

$kernel GROUP gradients_by_k_v(read STORAGE grad, read STORAGE q, read STORAGE k, read STORAGE v, read void mask,
        read REAL lse, read REAL inner, write STORAGE k_grad, write STORAGE v_grad, attention geometry, REAL scale) {
    __local REAL a_tile[EDGE * STEP], b_tile[EDGE * STEP], weights[TILE * STEP];
    const attention g = geometry;
    const int x = get_local_id(0), y = get_local_id(1);
    const long shared = get_group_id(1), first = (long)get_group_id(0) * TILE, keys = min((long)TILE, g.keys - first);
    REAL scores[4][4], means[4][4], k_sums[4][4 * CHUNKS], v_sums[4][4 * CHUNKS];
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < 4 * CHUNKS; i++) k_sums[r][i] = v_sums[r][i] = 0;
    k += (shared * g.keys + first) * g.width;
    v += (shared * g.keys + first) * g.values;
    for (long head = shared * g.shared; head < (shared + 1) * g.shared; head++)
        for (long start = g.causal ? first : 0; start < g.queries; start += TILE) {
            const long at = head * g.queries + start, queries = g.queries - start;
            row_products(scores, k, keys, q + at * g.width, queries, g.width, a_tile, b_tile);
            row_products(means, v, keys, grad + at * g.values, queries, g.values, a_tile, b_tile);
            for (int c = 0; c < 4; c++) {
                const long query = x + c * EDGE;
                const REAL divided = query < queries ? lse[at + query] : (REAL)INFINITY;
                const REAL mean = query < queries ? inner[at + query] : (REAL)0;
                for (int r = 0; r < 4; r++) {
                    const long key = first + y + r * EDGE;
                    const REAL weight = exp(visible(scores[r][c] * scale, mask, head, start + query, key, &g) - divided);
                    weights[(y + r * EDGE) * STEP + query] = weight;
                    means[r][c] = weight * (means[r][c] - mean) * scale;
                }
            }
            FENCE;
            add_rows(v_sums, weights, grad + at * g.values, queries, g.values, a_tile);
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 4; c++) weights[(y + r * EDGE) * STEP + x + c * EDGE] = means[r][c];
            FENCE;
            add_rows(k_sums, weights, q + at * g.width, queries, g.width, a_tile);
        }
    write_rows(k_sums, k_grad + (shared * g.keys + first) * g.width, keys, g.width);
    write_rows(v_sums, v_grad + (shared * g.keys + first) * g.values, keys, g.values);
}
