// cached_attention/float32_1
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define VECTOR 8
#define KIND float
#define HALF 0
#define QUANTS 0
#define BFLOAT 0
#define SIZE 64
#define GROUP 1
#define ALONE 1
#define CHUNK 256
#define PARTS 1
#define NORMS 1
#define SPLIT 0
#define TWO 2
#define LOOPS __attribute__((vec_type_hint(float16)))
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
// PoCL 3 converts a half by a dozen instructions, and calls functions for vload8 and vstore8.
#if defined(POCL_DEVICE_ADDRESS_BITS) && defined(__F16C__)
#define HALF_AT(i, p) (__builtin_ia32_vcvtph2ps((short8)(((__global const short*)(p))[i], 0, 0, 0, 0, 0, 0, 0))[0])
#define EIGHT_HALVES(p) __builtin_ia32_vcvtph2ps256(*(__global const packed_short8*)(p))
#else
#define HALF_AT(i, p) vload_half(i, p)
#define EIGHT_HALVES(p) vload_half8(0, p)
#endif
typedef float8 __attribute__((aligned(4))) packed_float8;
typedef short8 __attribute__((aligned(2))) packed_short8;
typedef uchar8 __attribute__((aligned(1))) packed_uchar8;
// Attention of one new token of each row of a batch to the keys of a cache, (rows, kv heads, places, SIZE).
//
// x (rows, heads + 2 kv heads, SIZE) has the new query, key and value, whose place is `used` of the row. A group has a query head
// and a part of the keys: it normalizes and turns query and key, computes CHUNK weights at a time, and scales the sums of before
// to the new largest score. The group with the new key writes key and value to the cache; the others read older places only.
// With several groups for a head (SPLIT) their sums, largest scores and totals are joined by a second kernel. On CPUs GROUP is 1.
// A cache in Q8_0 (QUANTS) has chars and, for 32 neighbours, a half: the largest size divided by 127.
//
// Local memory: query and key, CHUNK weights, GROUP numbers, and PARTS * SIZE sums. Contraction of a*b+c is allowed here.

#pragma OPENCL FP_CONTRACT ON
#define EIGHTS (SIZE / 8)
#define KLOAD(table, at) vload8(0, table + (at))
#define KSTORE(x, p) (*(p) = (x))

static inline float across(const float8 v) {
    const float4 four = v.lo + v.hi;
    return (four.x + four.y) + (four.z + four.w);
}

#define JOINED(x, join) (x)
#define BARRIER

__kernel LOOPS void cached_attention(
    __global const STORAGE *x,
    __global KIND *keys,
    __global KIND *values,
    __global const int *used,
    __global const float *turns,
    __global const STORAGE *q_norm,
    __global const STORAGE *k_norm,
    __global STORAGE *out,
    __local float *work,
    const long heads,
    const long kv_heads,
    const long places,
    const long dim,
    const long window,
    const float scale,
    const float cap,
    const float eps) {
    const int item = get_local_id(0);
    const long head = get_group_id(0) % heads, n = get_group_id(0) / heads, part = get_group_id(1), parts = get_num_groups(1);
    const long own = head / (heads / kv_heads), at = min((long)used[n], places - 1);
    const long oldest = window > 0 ? max(0L, at - window + 1) : 0, each = (at - oldest + parts) / parts;
    const long begin = oldest + part * each, end = min(at + 1, begin + each);
    __local float *q = work, *k = q + SIZE, *weights = k + SIZE, *numbers = weights + CHUNK, *rest = numbers + GROUP;
    __global const STORAGE* row = x + n * (heads + 2 * kv_heads) * SIZE;
    __global const STORAGE* new_value = row + (heads + kv_heads + own) * SIZE;
    __global KIND* own_keys = keys + (n * kv_heads + own) * places * SIZE;
    __global KIND* own_values = values + (n * kv_heads + own) * places * SIZE;
    const long half_dim = dim / 2;
    for (int which = 0; which < 2; which++) {
        __global const STORAGE* from = row + (which ? heads + own : head) * SIZE;
        __local float* to = which ? k : q;
        float factor = which ? 1 : scale;
        __global const STORAGE* norm = which ? k_norm : q_norm;
        float squares = 0;
        for (int d = item; d < SIZE; d += GROUP) squares += LOAD(from, d) * LOAD(from, d);
        const float mean = JOINED(squares, 1) / SIZE;
        factor *= rsqrt(mean + eps);
#define NUMBER(d) (LOAD(from, d) * LOAD(norm, d))
        for (int d = item; d < SIZE; d += GROUP) {
            float number = NUMBER(d);
            if (d < dim) {
                const long pair = d % half_dim;
                const float cosine = turns[at * dim + pair], sine = turns[at * dim + half_dim + pair];
                number = d < half_dim ? number * cosine - NUMBER(d + half_dim) * sine
                                      : number * cosine + NUMBER(d - half_dim) * sine;
            }
            to[d] = number * factor;
        }
    }
    BARRIER
    if (end == at + 1 && begin <= at && head % (heads / kv_heads) == 0)
        for (int d = item; d < SIZE; d += GROUP) {
            KSTORE(k[d], own_keys + at * SIZE + d);
            KSTORE(LOAD(new_value, d), own_values + at * SIZE + d);
        }
    float top = -INFINITY, total = 0;
    float8 sum[EIGHTS];
    for (int e = 0; e < EIGHTS; e++) sum[e] = 0;
    for (long first = begin; first < end; first += CHUNK) {
        const int count = (int)min((long)CHUNK, end - first), stored = first + count == at + 1 ? count - 1 : count;
        float own_top = -INFINITY;
        for (int j = item; j < count; j += GROUP) {
            float8 products = 0;
            if (j < stored) {
                const long from = (first + j) * SIZE;
#pragma unroll
                for (int d = 0; d < SIZE; d += 8) products += vload8(0, q + d) * KLOAD(own_keys, from + d);
            } else {
                for (int d = 0; d < SIZE; d += 8) products += vload8(0, q + d) * vload8(0, k + d);
            }
            float score = across(products);
            if (cap > 0) score = cap * tanh(score / cap);
            weights[j] = score;
            own_top = fmax(own_top, score);
        }
        const float new_top = fmax(top, JOINED(own_top, 0)), before = exp(top - new_top);
        float own_total = 0;
        for (int j = count; j % 8; j++) weights[j] = -INFINITY;
        float8 eight = 0;
        for (int j = 0; j < count; j += 8) {
            const float8 weight = exp(vload8(0, weights + j) - new_top);
            vstore8(weight, 0, weights + j);
            eight += weight;
        }
        own_total = across(eight);
        total = total * before + JOINED(own_total, 1);
        top = new_top;
        for (int e = 0; e < EIGHTS; e++) sum[e] *= before;
        for (int j = 0; j < stored; j++) {
            const long from = (first + j) * SIZE;
#pragma unroll
            for (int e = 0; e < EIGHTS; e++) sum[e] += weights[j] * KLOAD(own_values, from + 8 * e);
        }
        if (stored < count)
            for (int e = 0; e < EIGHTS; e++) sum[e] += weights[stored] * VLOAD(new_value + 8 * e);
    }
    for (int e = 0; e < EIGHTS; e++) vstore8(sum[e], e, rest);
    const long place = n * heads + head;
    for (int d = item; d < SIZE; d += GROUP) {
        float result = 0;
        for (int p = 0; p < PARTS; p++) result += rest[p * SIZE + d];
        STORE(result / total, out, place * SIZE + d);
    }
}

