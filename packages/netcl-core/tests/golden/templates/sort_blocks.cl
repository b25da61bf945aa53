// sort_blocks/float32_10
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define GROUP 256
#define FIRST 1
#define FINAL 0
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// The elements of sorts: a key (see sort_keys.py) and, unless VALUES_ONLY, the position that it came from.

#define SIGN 0x80000000U
#define KEY_MASK 0xffffffffUL
typedef uint real_bits;
#define TELLS(key) ((key) != SIGN && (key) != KEY_MASK)
static inline ulong key_of(const REAL v) {
    const real_bits bits = as_uint(v);
    if ((bits & ~SIGN) > 0x7f800000U) return KEY_MASK;
    return bits << 1 == 0 ? SIGN : (real_bits)(bits & SIGN ? ~bits : bits | SIGN);
}
static inline REAL value_of(const ulong key) {
    const real_bits bits = (real_bits)key;
    return as_float(bits & SIGN ? bits & ~SIGN : ~bits);
}
static inline int differ(const REAL v, const REAL w) {
    const real_bits one = as_uint(v), other = as_uint(w);
    return ((one != other) & ((one | other) << 1 != 0)) | ((one & ~SIGN) > 0x7f800000U);
}
#define DIFFER(v, w) differ(v, w)

#if defined(DTYPE_FLOAT64) || defined(DTYPE_INT64)
#define WIDE 1
#endif

#ifdef VALUES_ONLY
#ifdef WIDE
typedef ulong element;
#else
typedef uint element;
#endif
#define KEY(e) (e)
#define ELEMENT(key, index) ((element)(key))
#define LAST ((element)KEY_MASK)
#elif defined(WIDE)
typedef ulong2 element;
#define KEY(e) ((e).x)
#define INDEX_OF(e) ((e).y)
#define ELEMENT(key, index) ((ulong2)((key), (index)))
#define LAST ((ulong2)(~0UL, ~0UL))
#define BEFORE(a, b) (KEY(a) < KEY(b))
#else
typedef ulong element;  // the key above the position
#define KEY(e) ((e) >> 32)
#define INDEX_OF(e) ((e) & 0xffffffffUL)
#define ELEMENT(key, index) ((key) << 32 | (index))
#define LAST (~0UL)
#define BEFORE(a, b) ((a) < (b))
#endif

// The sum of `own` over the work-items up to this one of N, in `all` (Hillis and Steele: Data parallel algorithms. Communications of
// the ACM 29, 1986, by steps of four). `sums` has room for 2 * N; sums[now + i] is the sum up to work-item i afterwards.
#define SUM_UP(sums, N, item, own, all, now) \
    uint all = (own), now = 0; \
    sums[item] = all; \
    barrier(CLK_LOCAL_MEM_FENCE); \
    for (uint far = 1; far < (N); far *= 4) { \
        if (item >= far) all += sums[now + item - far]; \
        if (item >= 2 * far) all += sums[now + item - 2 * far]; \
        if (item >= 3 * far) all += sums[now + item - 3 * far]; \
        now = (N) - now; \
        sums[now + item] = all; \
        barrier(CLK_LOCAL_MEM_FENCE); \
    }

// Combines the first `n` of `states`, at most `most`, into the first one. Intel's CPU compiler gets a loop with barriers wrong whose
// end it does not know to be the same for all work-items.
#define COMBINE(n, most) \
    for (uint far = 1; far < (most); far *= 2) { \
        if (item % (2 * far) == 0 && item + far < (n)) { \
            state behind = states[item + far]; \
            BEHIND(states[item], behind) \
            states[item] = behind; \
        } \
        barrier(CLK_LOCAL_MEM_FENCE); \
    }

// Combines `number` states, which TAKE(index, s) reads from `begin` on, into the first of `states`, in their order.
#define COMBINE_SHARES(TAKE, begin, number, states) { \
        const uint share = ((number) + GROUP - 1) / GROUP, n = ((number) + share - 1) / share; \
        if (item < n) { \
            state of_share; \
            TAKE((begin) + item * share, of_share) \
            for (uint i = item * share + 1; i < min((number), (item + 1) * share); i++) { \
                state behind; \
                TAKE((begin) + i, behind) \
                BEHIND(of_share, behind) \
                of_share = behind; \
            } \
            states[item] = of_share; \
        } \
        barrier(CLK_LOCAL_MEM_FENCE); \
        COMBINE(n, GROUP) \
    }
// The places of digits of four bits in a pass of radix sort in local memory, by GROUP work-items with EIGHT elements each
// (Satish, Harris and Garland: Designing efficient sorting algorithms for manycore GPUs. IPDPS 2009).

#define EIGHT 8
#define ALL (GROUP * EIGHT)

// Counts a work-item's digits, in sixteen counters of four bits; before[k] of its own digits before k are the same. Counts of the
// digits d and d + 8 share a word of `counts`.
static inline void count_digits(const uint* digits, uchar* before, __local uint* counts, const uint item) {
    ulong tally = 0;
    #pragma unroll
    for (uint k = 0; k < EIGHT; k++) {
        const uint at = digits[k] * 4;
        before[k] = tally >> at & 15;
        tally += 1UL << at;
    }
    #pragma unroll
    for (uint d = 0; d < 8; d++) counts[d * GROUP + item] = (uint)(tally >> 4 * d & 15) | (uint)(tally >> (4 * d + 32) & 15) << 16;
}

// The place of a work-item's first element with a digit, once `add_up` has been called.
#define PLACE_OF(counts, digit, item) (counts[((digit) & 7) * GROUP + (item)] >> ((digit) >> 3) * 16 & 0xffff)

// Turns counts into the sums of the counts before, digit by digit and work-item by work-item. `sums` has room for 2 * GROUP.
static inline void add_up(__local uint* counts, __local uint* sums, const uint item) {
    __local uint8* own = (__local uint8*)counts + item;
    const uint8 c = *own;
    const uint s1 = c.s0 + c.s1, s2 = s1 + c.s2, s3 = s2 + c.s3, s4 = s3 + c.s4, s5 = s4 + c.s5, s6 = s5 + c.s6, sum = s6 + c.s7;
    SUM_UP(sums, GROUP, item, sum, all, now)
    // The digits from 8 on come after all elements with smaller ones.
    const uint others = all - sum + (sums[now + GROUP - 1] << 16);
    *own = (uint8)(others) + (uint8)(0, c.s0, s1, s2, s3, s4, s5, s6);
}

// A work-item's eight elements, by one access: single ones would be in the same banks.
#define TAKE_EIGHT(own, n) \
    own[0] = n.s0, own[1] = n.s1, own[2] = n.s2, own[3] = n.s3, own[4] = n.s4, own[5] = n.s5, own[6] = n.s6, own[7] = n.s7;

// Stable radix sort of long rows by digits of eight bits, the least significant first (LSD), for devices with work-groups. A row
// has chunks of `blocks` blocks of ALL elements. A pass has three steps: `chunk_counts` counts the digits of each chunk, a scan of
// the counts, digit by digit and chunk by chunk, gives where each chunk's elements with a digit go, and `chunk_scatter` sorts
// block after block by the digit in local memory and writes its runs of equal digits there.
//
// The first pass makes elements (sort_elements.cl) of x, the last one writes values and, unless VALUES_ONLY, positions.

typedef struct {
    long extent, chunks, length, shift;
    ulong flip;
} digits;

#define RADIX 256
#define TAKEN(i) ELEMENT((key_of(LOAD(from, row + (i))) ^ g.flip) & KEY_MASK, (ulong)(i))
#define DIGIT(e) ((uint)(KEY(e) >> g.shift) & (RADIX - 1))

// Elements from `head` to `tail` of row `number`.
#define CHUNK \
    const uint item = get_local_id(0); \
    const long number = get_group_id(0) / g.chunks, chunk = get_group_id(0) % g.chunks; \
    const long row = number * g.extent, head = chunk * g.length, tail = min(g.extent, head + g.length)

#define COUNT_OF(d) ((number * RADIX + (d)) * g.chunks + chunk)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void chunk_counts(
    __global const STORAGE *restrict from,
    __global int *restrict counts,
    const digits g) {
    __local uint found[RADIX];
    CHUNK;
    for (uint d = item; d < RADIX; d += GROUP) found[d] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (long begin = head + item; begin < tail; begin += ALL) {
        uint digit[EIGHT];
        #pragma unroll
        for (uint k = 0; k < EIGHT; k++) {
            const element e = TAKEN(min(begin + k * GROUP, tail - 1));
            digit[k] = DIGIT(e);
        }
        #pragma unroll
        for (uint k = 0; k < EIGHT; k++)
            if (begin + k * GROUP < tail) atomic_inc(&found[digit[k]]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint d = item; d < RADIX; d += GROUP) counts[COUNT_OF(d)] = found[d];
}

// Padded, so that accesses of EIGHT elements in a row by each work-item are to different banks.
#define STAGE(i) ((i) + (i) / EIGHT)
#define DIGIT_OF(word) ((word) >> 16)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void chunk_scatter(
    __global const STORAGE *restrict from,
    __global const int *restrict counts,
    __global const int *restrict sums_of_counts,
    __global element *restrict to,
    const digits g) {
    __local element shared[STAGE(ALL)];
    __local uint words[ALL] __attribute__((aligned(32)));  // of each element the digit, above its place in `shared`
    __local uint places_[8 * GROUP] __attribute__((aligned(32)));
    __local uint sums_[2 * GROUP];
    __local int base[RADIX];
    // PoCL 3.0: see matrix_unit_mma_twin.cl.
    __local uint* places = places_ + min((int)g.chunks, 0);
    __local uint* sums = sums_ + min((int)g.chunks, 0);
    CHUNK;
    for (uint d = item; d < RADIX; d += GROUP) base[d] = sums_of_counts[COUNT_OF(d)] - counts[COUNT_OF(d)];
    for (long begin = head; begin < tail; begin += ALL) {
        const uint count = min((long)ALL, tail - begin);
        element loaded[EIGHT];  // all under way before the first is stored
        #pragma unroll
        for (uint k = 0; k < EIGHT; k++) loaded[k] = TAKEN(begin + min(item + k * GROUP, count - 1));
        #pragma unroll
        for (uint k = 0; k < EIGHT; k++) {
            const uint i = item + k * GROUP;
            if (i < count) shared[STAGE(i)] = loaded[k];
            else shared[STAGE(i)] = LAST;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        uint word[EIGHT], nibble[EIGHT];
        uchar before[EIGHT];
        #pragma unroll
        for (uint k = 0; k < EIGHT; k++) word[k] = DIGIT(shared[STAGE(item * EIGHT + k)]) << 16 | (item * EIGHT + k);
        for (uint shift = 16; shift < 24; shift += 4) {
            #pragma unroll
            for (uint k = 0; k < EIGHT; k++) nibble[k] = word[k] >> shift & 15;
            count_digits(nibble, before, places, item);
            barrier(CLK_LOCAL_MEM_FENCE);
            add_up(places, sums, item);
            barrier(CLK_LOCAL_MEM_FENCE);
            #pragma unroll
            for (uint k = 0; k < EIGHT; k++) words[PLACE_OF(places, nibble[k], item) + before[k]] = word[k];
            barrier(CLK_LOCAL_MEM_FENCE);
            const uint8 next = ((__local const uint8*)words)[item];
            TAKE_EIGHT(word, next)
        }
        // A run of equal digits, from i on, goes to base[d] + i in all, with what this subtracts.
        for (uint i = item; i < count; i += GROUP) {
            const uint d = DIGIT_OF(words[i]);
            if (i == 0 || d != DIGIT_OF(words[i - 1])) base[d] -= i;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = item; i < count; i += GROUP) {
            const uint word = words[i];
            const element one = shared[STAGE(word & 0xffff)];
            const long p = row + (base[DIGIT_OF(word)] + (int)i);
#if !FINAL
            to[p] = one;
#else
            const ulong key = (KEY(one) ^ g.flip) & KEY_MASK;
#ifdef VALUES_ONLY
            STORE(value_of(key), values, p);
#else
            indices[p] = INDEX_OF(one);
            if (TELLS(key)) STORE(value_of(key), values, p);
            else STORE(LOAD(x, row + (long)INDEX_OF(one)), values, p);
#endif
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        // The next block's elements follow.
        for (uint i = item; i < count; i += GROUP) {
            const uint d = DIGIT_OF(words[i]);
            if (i + 1 == count || d != DIGIT_OF(words[i + 1])) base[d] += i + 1;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
