// sort_rows/float32
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define GROUP 512
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
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

// Combines the first `n` of `states`, at most `most`, into the first one. Intel's CPU compiler gets a loop with barriers wrong if its
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
#define PLACE_OF_DIGIT(counts, digit, item) (counts[((digit) & 7) * GROUP + (item)] >> ((digit) >> 3) * 16 & 0xffff)

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

// The ranks of a work-item's eight words by the digit of four bits above `shift`, among all: RANK(counts, k) of the k-th one.
#define RANK_DIGITS(words, shift, counts, sums) \
    uint nibble[EIGHT]; \
    uchar before[EIGHT]; \
    EACH_OF_EIGHT nibble[k] = words[k] >> shift & 15; \
    count_digits(nibble, before, counts, item); \
    barrier(CLK_LOCAL_MEM_FENCE); \
    add_up(counts, sums, item); \
    barrier(CLK_LOCAL_MEM_FENCE);
#define RANK(counts, k) (PLACE_OF_DIGIT(counts, nibble[k], item) + before[k])
#define EACH_OF_EIGHT _Pragma("unroll") for (uint k = 0; k < EIGHT; k++)
// Stable sort of short rows of keys of 32 bits (see sort_keys.py): a work-group of GROUP work-items sorts a row of at most
// GROUP * EIGHT elements in local memory by their digits of four bits, the least significant first (LSD radix sort).

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

typedef struct {
    long rows, extent, kept;
    ulong flip;
} row_sorting;

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void sort_rows(
    __global const STORAGE *restrict x,
    __global STORAGE *restrict values,
    __global long *restrict indices,
    const row_sorting g) {
    __local uint keys[ALL] __attribute__((aligned(32)));
    __local ushort places[ALL] __attribute__((aligned(16)));
    __local uint counts_[8 * GROUP] __attribute__((aligned(32)));
    __local uint sums_[2 * GROUP];
    // PoCL 3.0: see matrix_unit_mma_twin.cl.
    __local uint* counts = counts_ + min((int)g.extent, 0);
    __local uint* sums = sums_ + min((int)g.extent, 0);
    const uint item = get_local_id(0), extent = g.extent;
    const long row = get_group_id(0) * g.extent;
    for (uint i = item; i < ALL; i += GROUP) keys[i] = i < extent ? (uint)((key_of(LOAD(x, row + i)) ^ g.flip) & KEY_MASK) : 0xffffffffU;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint key[EIGHT];
    ushort place[EIGHT];
    #pragma unroll
    for (uint k = 0; k < EIGHT; k++) place[k] = item * EIGHT + k;
    const uint8 first_keys = ((__local const uint8*)keys)[item];
    TAKE_EIGHT(key, first_keys)
    for (uint shift = 0; shift < 32; shift += 4) {
        RANK_DIGITS(key, shift, counts, sums)
        #pragma unroll
        for (uint k = 0; k < EIGHT; k++) {
            const uint to = RANK(counts, k);
            keys[to] = key[k];
            places[to] = place[k];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint8 next_keys = ((__local const uint8*)keys)[item];
        const ushort8 next_places = ((__local const ushort8*)places)[item];
        TAKE_EIGHT(key, next_keys)
        TAKE_EIGHT(place, next_places)
    }
    const long first = get_group_id(0) * g.kept;
    for (uint i = item; i < (uint)g.kept; i += GROUP) {
        const uint from = places[i];
        const ulong key = (keys[i] ^ g.flip) & KEY_MASK;
        indices[first + i] = from;
        if (TELLS(key)) STORE(value_of(key), values, first + i);
        else STORE(LOAD(x, row + from), values, first + i);
    }
}
