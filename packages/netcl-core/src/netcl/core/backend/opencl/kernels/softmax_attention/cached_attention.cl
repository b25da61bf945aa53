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
$if QUANTS
#define KLOAD(table, at) (convert_float8(as_char8(*(__global const uint2*)(table + (at)))) * HALF_AT((at) / 32, table##_scales))
$else
$if HALF
#define KLOAD(table, at) vloada_half8(0, table + (at))
#define KSTORE(x, p) vstore_half_rte(x, 0, p)
$else
$if BFLOAT
#define KLOAD(table, at) as_float8(convert_uint8(*(__global const ushort8*)(table + (at))) << 16)
#define KSTORE(x, p) (*(p) = (as_uint(x) + 0x7fff + (as_uint(x) >> 16 & 1)) >> 16)
$else
#define KLOAD(table, at) vload8(0, table + (at))
#define KSTORE(x, p) (*(p) = (x))
$end
$end
$end

static inline float across(const float8 v) {
    const float4 four = v.lo + v.hi;
    return (four.x + four.y) + (four.z + four.w);
}

$if ALONE
#define JOINED(x, join) (x)
#define BARRIER
$else
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE);
#define JOINED(x, join) joined_##join(x, numbers, item)
$for i < TWO
static inline float joined_${i}(const float x, __local float* numbers, const int item) {
    BARRIER
    numbers[item] = x;
    BARRIER
    for (int step = GROUP / 2; step > 0; step /= 2) {
        if (item < step) numbers[item] = ${i} ? numbers[item] + numbers[item + step] : fmax(numbers[item], numbers[item + step]);
        BARRIER
    }
    return numbers[0];
}
$end
$end

$kernel LOOPS cached_attention(read STORAGE* x, write KIND* keys, write KIND* values, read int* used, read float* turns,
        write half* key_scales if QUANTS, write half* value_scales if QUANTS,
        read STORAGE* q_norm if NORMS, read STORAGE* k_norm if NORMS, write STORAGE* out if not SPLIT,
        write float* sums if SPLIT, local float work, long heads, long kv_heads, long places, long dim, long window,
        float scale, float cap, float eps) {
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
$if QUANTS
    __global half* own_keys_scales = key_scales + (n * kv_heads + own) * places * (SIZE / 32);
    __global half* own_values_scales = value_scales + (n * kv_heads + own) * places * (SIZE / 32);
$end
    const long half_dim = dim / 2;
    for (int which = 0; which < 2; which++) {
        __global const STORAGE* from = row + (which ? heads + own : head) * SIZE;
        __local float* to = which ? k : q;
        float factor = which ? 1 : scale;
$if NORMS
        __global const STORAGE* norm = which ? k_norm : q_norm;
        float squares = 0;
        for (int d = item; d < SIZE; d += GROUP) squares += LOAD(from, d) * LOAD(from, d);
        const float mean = JOINED(squares, 1) / SIZE;
        factor *= rsqrt(mean + eps);
#define NUMBER(d) (LOAD(from, d) * LOAD(norm, d))
$else
#define NUMBER(d) LOAD(from, d)
$end
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
$if QUANTS
        for (int block = item; block < SIZE / 16; block += GROUP) {
            const bool is_value = block >= SIZE / 32;
            const int first = block % (SIZE / 32) * 32;
            float largest = 0;
            for (int d = first; d < first + 32; d++) largest = fmax(largest, fabs(is_value ? LOAD(new_value, d) : k[d]));
            const float inverse = largest > 0 ? 127 / largest : 0;
            __global KIND* to = (is_value ? own_values : own_keys) + at * SIZE;
            for (int d = first; d < first + 32; d++)
                to[d] = convert_char_sat(round((is_value ? LOAD(new_value, d) : k[d]) * inverse));
            vstore_half_rte(largest / 127, (at * SIZE + first) / 32, is_value ? own_values_scales : own_keys_scales);
        }
$else
        for (int d = item; d < SIZE; d += GROUP) {
            KSTORE(k[d], own_keys + at * SIZE + d);
            KSTORE(LOAD(new_value, d), own_values + at * SIZE + d);
        }
$end
    float top = -INFINITY, total = 0;
$if ALONE
    float8 sum[EIGHTS];
    for (int e = 0; e < EIGHTS; e++) sum[e] = 0;
$else
    float8 sum = 0;
    const int e = item % EIGHTS, turn = item / EIGHTS;
$end
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
$if ALONE
        for (int j = count; j % 8; j++) weights[j] = -INFINITY;
        float8 eight = 0;
        for (int j = 0; j < count; j += 8) {
            const float8 weight = exp(vload8(0, weights + j) - new_top);
            vstore8(weight, 0, weights + j);
            eight += weight;
        }
        own_total = across(eight);
$else
        for (int j = item; j < count; j += GROUP) {
            weights[j] = exp(weights[j] - new_top);
            own_total += weights[j];
        }
$end
        total = total * before + JOINED(own_total, 1);
        top = new_top;
$if ALONE
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
$else
        sum *= before;
        if (turn < PARTS) {
            for (int j = turn; j < stored; j += PARTS) sum += weights[j] * KLOAD(own_values, (first + j) * SIZE + 8 * e);
            if (stored < count && turn == 0) sum += weights[stored] * VLOAD(new_value + 8 * e);
        }
        BARRIER
    }
    if (turn < PARTS) vstore8(sum, turn * EIGHTS + e, rest);
    BARRIER
$end
    const long place = n * heads + head;
    for (int d = item; d < SIZE; d += GROUP) {
        float result = 0;
        for (int p = 0; p < PARTS; p++) result += rest[p * SIZE + d];
$if SPLIT
        sums[(place * parts + part) * (SIZE + 2) + d] = result;
    }
    if (item == 0) {
        sums[(place * parts + part) * (SIZE + 2) + SIZE] = top;
        sums[(place * parts + part) * (SIZE + 2) + SIZE + 1] = total;
    }
$else
        STORE(result / total, out, place * SIZE + d);
    }
$end
}

$if SPLIT
$kernel LOOPS join_parts(read float* sums, write STORAGE* out, long parts) {
    const long at = get_global_id(0), place = at / SIZE, d = at % SIZE;
    __global const float* from = sums + place * parts * (SIZE + 2);
    float top = -INFINITY, total = 0, sum = 0;
    for (long p = 0; p < parts; p++) top = fmax(top, from[p * (SIZE + 2) + SIZE]);
    for (long p = 0; p < parts; p++) {
        const float weight = exp(from[p * (SIZE + 2) + SIZE] - top);
        total += weight * from[p * (SIZE + 2) + SIZE + 1];
        sum += weight * from[p * (SIZE + 2) + d];
    }
    STORE(sum / total, out, at);
}
$end
