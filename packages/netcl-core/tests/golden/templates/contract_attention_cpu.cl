// contract_attention_cpu/cpu_float32
#define DTYPE_FLOAT32 1
#define VECTOR 8
#define ROWS 6
#define WIDTH 32
#define KEYS 48
#define QUERIES 48
#define LOOPS __attribute__((vec_type_hint(float16)))
#ifdef POCL_DEVICE_ADDRESS_BITS
#define SEPARATE __attribute__((noinline))
#else
#define SEPARATE inline
#endif
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
#define REALV float8
typedef float8 __attribute__((aligned(4))) PACKED;
#define GLOAD(p) (*(__global const PACKED*)(p))
#define GSTORE(x, p) (*(__global PACKED*)(p) = (x))
#define RLOAD(p) vload8(0, (p))
#define RSTORE(x, p) vstore8((x), 0, (p))
#define VLOAD(p) GLOAD(p)
#define VSTORE(x, p) GSTORE((x), (p))
// Attention by an online softmax (Milakov and Gimelshein 2018; Dao et al. 2022) for CPU devices: only the scores of one
// block of queries and one block of keys exist at a time.
//
// attend            one work-item: WIDTH queries of a head, a lane for each, against all keys, KEYS at a time.
// attend_gradients  one work-item: WIDTH keys at a time, a lane for each, of its part of the keys of a head, against all
//                   queries of the heads that share them, QUERIES at a time. Gradients by q are summed up in `q_grad`, of
//                   which each part has its own.
//
// Blocks are in local memory (on a CPU: the thread's own cache), the lanes' blocks transposed, so that every product is one of
// ROWS numbers by two vectors. Rows are padded with zeros to whole tiles. lse: the logarithm of the divisor of a query's
// weights, infinite if it has no visible key. Contraction of a*b+c into one rounding is allowed here.

#define VECTORS (WIDTH / VECTOR)
#define NEVER ((REALV)(-INFINITY))
#define WIDE __attribute__((vec_type_hint(REALV)))  // or drivers spend seconds on vectorising across work-items

typedef struct {
    long queries, keys, width, values;
    long heads, shared;              // of q in a sample; of q that use one of k and v
    long blocks, parts, each;        // of queries, or of keys; parts of the keys; blocks of a part
    long width_step, values_step;    // padded rows
    long causal, masked;             // masked: 1 by a boolean mask, 2 by an additive mask
    long mask_sample, mask_head, mask_query;
    long at[9];                      // offsets of the arrays in local memory, in vectors
} attention;

#if ROWS == 4
#define EACH_ROW(F) F(0) F(1) F(2) F(3)
#elif ROWS == 6
#define EACH_ROW(F) F(0) F(1) F(2) F(3) F(4) F(5)
#else
#define EACH_ROW(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#endif
#define POINT(i) __local const REAL* a##i = a + (i) * a_row;
#define BEGIN(i) REALV c##i##_0 = 0, c##i##_1 = 0;
#define RESUME(i) c##i##_0 = to[(i) * to_step] * f0; c##i##_1 = to[(i) * to_step + 1] * f1;
#define MULTIPLY(i) { const REAL x = a##i[at]; c##i##_0 += x * b0; c##i##_1 += x * b1; }
#define KEEP(i) to[(i) * to_step] = c##i##_0; to[(i) * to_step + 1] = c##i##_1;

// to = (resume ? to * (f0, f1) : 0) + A B: ROWS x `depth` numbers by two vectors of each of `depth` rows.
static SEPARATE void multiply(__local REALV* to, const long to_step, const bool resume, const REALV f0, const REALV f1,
                            __local const REAL* a, const long a_row, const long a_k, __local const REALV* b,
                            const long b_step, const long depth) {
    EACH_ROW(BEGIN)
    if (resume) { EACH_ROW(RESUME) }
    EACH_ROW(POINT)
    size_t at = 0;
    for (long k = 0; k < depth; k++, at += a_k, b += b_step) {
        const REALV b0 = b[0], b1 = b[1];
        EACH_ROW(MULTIPLY)
    }
    EACH_ROW(KEEP)
}

// Rows of `width` elements in place, at a distance of `step`; zeros after them and in the rows up to `all`.
static inline void copy_rows(__global const STORAGE* from, __local REALV* to, const long rows, const long all, const long width,
                             const long step) {
    for (long row = 0; row < all; row++, from += width, to += step / VECTOR) {
        const long length = row < rows ? width : 0;
        long e = 0;
        for (; e + VECTOR <= length; e += VECTOR) to[e / VECTOR] = VLOAD(from + e);
        for (; e < length; e++) ((__local REAL*)to)[e] = LOAD(from, e);
        for (; e < step; e++) ((__local REAL*)to)[e] = 0;
    }
}

// The rows as columns of WIDTH lanes, times a factor; zeros in lanes behind the last row.
static SEPARATE void turn_rows(__global const STORAGE* from, __local REALV* to, const long rows, const long width, const REAL factor) {
    for (long row = 0; row < WIDTH; row++)
        for (long e = 0; e < width; e++)
            ((__local REAL*)to)[e * WIDTH + row] = row < rows ? LOAD(from, row * width + e) * factor : (REAL)0;
}

static inline REALV numbered(void) {
    REAL lanes[VECTOR];
    for (int i = 0; i < VECTOR; i++) lanes[i] = i;
    return RLOAD(lanes);
}

// Scores of one vector of lanes under the mask; the mask's element for lane i is at from + min(i, last) * step.
static SEPARATE REALV under_mask(const REALV score, __global const void* mask, const long masked, const long from, const long step,
                               const long last) {
    REAL lanes[VECTOR];
    if (masked == 1) {
        for (long i = 0; i < VECTOR; i++) lanes[i] = ((__global const uchar*)mask)[from + min(i, last) * step];
        return RLOAD(lanes) != (REALV)(0) ? score : NEVER;
    }
    for (long i = 0; i < VECTOR; i++) lanes[i] = ((__global const REAL*)mask)[from + min(i, last) * step];
    return score + RLOAD(lanes);
}

__kernel WIDE void attend(
    __global const STORAGE *restrict q,
    __global const STORAGE *restrict k,
    __global const STORAGE *restrict v,
    __global const void *restrict mask,
    __global STORAGE *restrict out,
    __global REAL *restrict lse,
    const attention geometry,
    const REAL scale,
    __local REALV *work) {
    const attention g = geometry;
    const long first = (long)(get_global_id(0) % g.blocks) * WIDTH, head = get_global_id(0) / g.blocks;
    const long queries = min((long)WIDTH, g.queries - first);
    const long masks = head / g.heads * g.mask_sample + head % g.heads * g.mask_head;
    __local REALV *turned = work + g.at[0], *sums = work + g.at[1], *weights = work + g.at[2], *block = work + g.at[3];
    REALV top[VECTORS], total[VECTORS], factor[VECTORS];
    const REALV lane = numbered();
    k += head / g.shared * g.keys * g.width;
    v += head / g.shared * g.keys * g.values;
    turn_rows(q + (head * g.queries + first) * g.width, turned, queries, g.width, scale);
    for (long i = 0; i < (g.values + ROWS - 1) / ROWS * ROWS * VECTORS; i++) sums[i] = 0;
    for (int w = 0; w < VECTORS; w++) {
        top[w] = NEVER;
        total[w] = 0;
    }
    const long end = g.causal ? min(g.keys, first + queries) : g.keys;
    for (long start = 0; start < end; start += KEYS) {
        const long keys = min((long)KEYS, end - start);
        copy_rows(k + start * g.width, block, keys, (keys + ROWS - 1) / ROWS * ROWS, g.width, g.width_step);
        for (long row = 0; row < keys; row += ROWS)
            for (int w = 0; w < VECTORS; w += 2)
                multiply(weights + row * VECTORS + w, VECTORS, false, 0, 0, (__local REAL*)block + row * g.width_step,
                         g.width_step, 1, turned + w, VECTORS, g.width);
        if (g.masked)
            for (long i = 0; i < keys * VECTORS; i++) {
                const long query = first + i % VECTORS * VECTOR;
                const long last = max(0L, g.queries - 1 - query), from = min(query, g.queries - 1);
                weights[i] = under_mask(weights[i], mask, g.masked, masks + from * g.mask_query + start + i / VECTORS,
                                        g.mask_query, last);
            }
        if (g.causal && start + keys - 1 > first)
            for (long i = 0; i < keys * VECTORS; i++)
                weights[i] = lane < (REALV)(start + i / VECTORS - first - i % VECTORS * VECTOR) ? NEVER : weights[i];
        for (int w = 0; w < VECTORS; w++) {
            REALV most = top[w], sum = 0;
            for (long key = 0; key < keys; key++) {
                const REALV score = weights[key * VECTORS + w];
                most = most < score ? score : most;  // a NaN comes through in the sum
            }
            const REALV finite = most == NEVER ? (REALV)(0) : most;
            for (long key = 0; key < keys; key++) {
                const REALV weight = exp(weights[key * VECTORS + w] - finite);
                weights[key * VECTORS + w] = weight;
                sum += weight;
            }
            factor[w] = exp(top[w] - finite);
            total[w] = total[w] * factor[w] + sum;
            top[w] = most;
        }
        copy_rows(v + start * g.values, block, keys, keys, g.values, g.values_step);
        for (long row = 0; row < g.values; row += ROWS)
            for (int w = 0; w < VECTORS; w += 2)
                multiply(sums + row * VECTORS + w, VECTORS, true, factor[w], factor[w + 1], (__local REAL*)block + row, 1,
                         g.values_step, weights + w, VECTORS, keys);
    }
    __local REAL* results = (__local REAL*)sums;
    REAL lanes[WIDTH];
    for (int w = 0; w < VECTORS; w++) {
        factor[w] = total[w] == (REALV)(0) ? (REALV)(0) : 1 / total[w];
        RSTORE(total[w] == (REALV)(0) ? (REALV)(INFINITY) : top[w] + log(total[w]), lanes + w * VECTOR);
    }
    for (long i = 0; i < g.values * VECTORS; i++) sums[i] *= factor[i % VECTORS];
    out += (head * g.queries + first) * g.values;
    for (long query = 0; query < queries; query++) {
        for (long e = 0; e < g.values; e++) STORE(results[e * WIDTH + query], out, query * g.values + e);
        lse[head * g.queries + first + query] = lanes[query];
    }
}

__kernel WIDE void attend_gradients(
    __global const STORAGE *restrict grad,
    __global const STORAGE *restrict q,
    __global const STORAGE *restrict k,
    __global const STORAGE *restrict v,
    __global const void *restrict mask,
    __global const REAL *restrict lse,
    __global const REAL *restrict inner,
    __global REAL *restrict q_grad,
    __global STORAGE *restrict k_grad,
    __global STORAGE *restrict v_grad,
    const attention geometry,
    const REAL scale,
    __local REALV *work) {
    const attention g = geometry;
    const long part = get_global_id(0) % g.parts, shared = get_global_id(0) / g.parts;
    const long rows = g.shared * g.queries;  // of q for these keys
    const REALV lane = numbered();
    __local REALV *k_turned = work + g.at[0], *v_turned = work + g.at[1], *k_rows = work + g.at[2];
    __local REALV *k_sums = work + g.at[3], *v_sums = work + g.at[4], *q_rows = work + g.at[5], *grad_rows = work + g.at[6];
    __local REALV *weights = work + g.at[7], *slopes = work + g.at[8];
    q += shared * rows * g.width;
    grad += shared * rows * g.values;
    lse += shared * rows;
    inner += shared * rows;
    k += shared * g.keys * g.width;
    v += shared * g.keys * g.values;
    k_grad += shared * g.keys * g.width;
    v_grad += shared * g.keys * g.values;
    q_grad += (part * (long)(get_global_size(0) / g.parts) + shared) * rows * g.width;
    for (long i = 0; i < rows * g.width; i++) q_grad[i] = 0;
    const long blocks = min(g.each, g.blocks - part * g.each);
    for (long block = part * g.each; block < part * g.each + blocks; block++) {
        const long first = block * WIDTH, keys = min((long)WIDTH, g.keys - first);
        turn_rows(k + first * g.width, k_turned, keys, g.width, scale);
        turn_rows(v + first * g.values, v_turned, keys, g.values, 1);
        copy_rows(k + first * g.width, k_rows, keys, WIDTH, g.width, g.width_step);
        for (long i = 0; i < (g.width + ROWS - 1) / ROWS * ROWS * VECTORS; i++) k_sums[i] = 0;
        for (long i = 0; i < (g.values + ROWS - 1) / ROWS * ROWS * VECTORS; i++) v_sums[i] = 0;
        for (long among = 0; among < g.shared; among++) {
            const long head = shared * g.shared + among;
            const long masks = head / g.heads * g.mask_sample + head % g.heads * g.mask_head;
            for (long start = g.causal ? first / QUERIES * QUERIES : 0; start < g.queries; start += QUERIES) {
                const long queries = min((long)QUERIES, g.queries - start), at = among * g.queries + start;
                const long tiled = (queries + ROWS - 1) / ROWS * ROWS;
                copy_rows(q + at * g.width, q_rows, queries, tiled, g.width, g.width_step);
                copy_rows(grad + at * g.values, grad_rows, queries, tiled, g.values, g.values_step);
                for (long row = 0; row < tiled; row += ROWS)
                    for (int w = 0; w < VECTORS; w += 2) {
                        multiply(weights + row * VECTORS + w, VECTORS, false, 0, 0, (__local REAL*)q_rows + row * g.width_step,
                                 g.width_step, 1, k_turned + w, VECTORS, g.width);
                        multiply(slopes + row * VECTORS + w, VECTORS, false, 0, 0, (__local REAL*)grad_rows + row * g.values_step,
                                 g.values_step, 1, v_turned + w, VECTORS, g.values);
                    }
                const bool edge = keys < WIDTH || (g.causal && first + WIDTH - 1 > start);
                for (long row = 0; row < queries; row++) {
                    const REAL divided = lse[at + row], mean = inner[at + row];
                    for (int w = 0; w < VECTORS; w++) {
                        REALV score = weights[row * VECTORS + w];
                        const long key = first + w * VECTOR, last = max(0L, g.keys - 1 - key);
                        if (g.masked)
                            score = under_mask(score, mask, g.masked, masks + (start + row) * g.mask_query + min(key, g.keys - 1),
                                               1, last);
                        if (edge) {
                            const long most = g.causal ? min(g.keys - 1, start + row) : g.keys - 1;
                            score = lane > (REALV)(most - key) ? NEVER : score;
                        }
                        const REALV weight = exp(score - divided);
                        weights[row * VECTORS + w] = weight;
                        slopes[row * VECTORS + w] = weight * (slopes[row * VECTORS + w] - mean) * scale;
                    }
                }
                for (long row = 0; row < g.values; row += ROWS)
                    for (int w = 0; w < VECTORS; w += 2)
                        multiply(v_sums + row * VECTORS + w, VECTORS, true, 1, 1, (__local REAL*)grad_rows + row, 1, g.values_step,
                                 weights + w, VECTORS, queries);
                for (long row = 0; row < g.width; row += ROWS)
                    for (int w = 0; w < VECTORS; w += 2)
                        multiply(k_sums + row * VECTORS + w, VECTORS, true, 1, 1, (__local REAL*)q_rows + row, 1, g.width_step,
                                 slopes + w, VECTORS, queries);
                for (long row = 0; row < queries; row += ROWS) {
                    for (long e = 0; e < g.width; e += 2 * VECTOR) {
                        __local REALV* sums = weights;  // they are used up
                        multiply(sums, 2, false, 0, 0, (__local REAL*)slopes + row * WIDTH, WIDTH, 1, k_rows + e / VECTOR,
                                 g.width_step / VECTOR, keys);
                        for (long i = 0; i < min((long)ROWS, queries - row); i++) {
                            __global REAL* to = q_grad + (at + row + i) * g.width + e;
                            if (e + 2 * VECTOR <= g.width) {
                                GSTORE(GLOAD(to) + sums[2 * i], to);
                                GSTORE(GLOAD(to + VECTOR) + sums[2 * i + 1], to + VECTOR);
                            } else
                                for (long j = 0; j < g.width - e; j++) to[j] += ((__local REAL*)(sums + 2 * i))[j];
                        }
                    }
                }
            }
        }
        for (long key = 0; key < keys; key++) {
            for (long e = 0; e < g.width; e++) STORE(((__local REAL*)k_sums)[e * WIDTH + key], k_grad, (first + key) * g.width + e);
            for (long e = 0; e < g.values; e++) STORE(((__local REAL*)v_sums)[e * WIDTH + key], v_grad, (first + key) * g.values + e);
        }
    }
}
