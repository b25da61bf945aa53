// sort_tiles/float32_10_chunks
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define GROUP 256
#define EACH 8
#define FIRST 1
#define FINAL 0
#define SWEPT 0
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// The keys of a radix sort of long rows, digit after digit of eight bits, and its memory. With SWEPT tiles, `work` has for each pass
// a counter of tickets, then for each row and pass the counts of the digits; `words` has for each pass, row and tile a word for
// each digit. Otherwise a row has chunks of `length` elements, and `counts` for each digit the counts of all chunks.

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
typedef ulong key_word;
#define PASSES 8
#else
typedef uint key_word;
#define PASSES 4
#endif
#define RADIX 256
#define DIGIT(key, pass) ((uint)((key) >> 8 * (pass)) & (RADIX - 1))

typedef struct {
    long rows, extent, tiles, chunks, length, pass;
    ulong flip;
} sorting;

#define KEY_AT(x, i) ((key_word)((key_of(LOAD(x, i)) ^ g.flip) & KEY_MASK))
#define COUNT_OF(number, chunk, d) (((number) * RADIX + (d)) * g.chunks + (chunk))
#define COUNTS_OF(number) (work + PASSES + (number) * PASSES * RADIX)
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
// A pass of a stable radix sort of long rows by digits of eight bits, the least significant first. A tile of GROUP * EACH elements is
// ordered by the digit in local memory, and its runs of equal digits are written behind the elements before them.
//
// Where a run goes comes in one of two ways. A work-group of a chunk carries it from tile to tile, from the scanned counts of all
// chunks on (digit_counts). With SWEPT tiles, on devices with operations of a warp, a pass reads and writes the data once (Adinets and
// Merrill: Onesweep. 2022, arXiv 2206.01784): work-groups take the tiles in the order in which they begin, publish the counts of their
// digits, and sum the counts published by the tiles before them, from the nearest back to one with the sum of all before
// (decoupled look-back: Merrill and Garland, 2016). A pass in which all elements of a row have the same digit then leaves them
// where they are, except the first and the last pass.
//
// The first pass makes keys of x, the last one writes values and, unless VALUES_ONLY, positions.

#define PLACE(k) (item + (k) * GROUP)
// Padded, so that accesses of EIGHT elements in a row by each work-item are to different banks.
#define STAGE(i) ((i) + (i) / EIGHT)
#define ORDERED(i) (order[i] & 0xffff)
#define DIGIT_OF(word) ((word) >> 16)

#define PLACES(text) text

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void sort_tiles(
    __global const STORAGE *restrict x,
    __global const int *restrict counts,
    __global const int *restrict sums_of_counts,
    __global key_word *one,
    __global key_word *two,
    __global uint *one_places,
    __global uint *two_places,
    const sorting g) {
    __local key_word keys[STAGE(ALL)];
    PLACES(__local uint places[ALL];)
    __local uint base[RADIX];
    const uint item = get_local_id(0);
    __local uint order[ALL] __attribute__((aligned(32)));  // of each element the digit, above its place in `keys`
    __local uint counters_[8 * GROUP] __attribute__((aligned(32)));
    __local uint sums_[2 * GROUP];
    // PoCL 3.0: see matrix_unit_mma_twin.cl.
    __local uint* counters = counters_ + min((int)g.chunks, 0);
    __local uint* sums = sums_ + min((int)g.chunks, 0);
    const long number = get_group_id(0) / g.chunks, chunk = get_group_id(0) % g.chunks;
    const long row = number * g.extent, begin = chunk * g.length, tail = min(g.extent, begin + g.length);
    for (uint d = item; d < RADIX; d += GROUP)
        base[d] = sums_of_counts[COUNT_OF(number, chunk, d)] - counts[COUNT_OF(number, chunk, d)];
    for (long head = begin; head < tail; head += ALL) {
#define KEY_OF(i) KEY_AT(x + (row + head), i)
    PLACES(const uint from_places = head;)
#define PLACE_OF(i) (from_places + (i))
    __global key_word* to = one + row;
    PLACES(__global uint* to_places = one_places + row;)
    // Elements behind the row count as the largest key.
    const uint count = min((long)ALL, tail - head);
    key_word key[EACH];
    if (count == ALL) {
        #pragma unroll
        for (uint k = 0; k < EACH; k++) key[k] = KEY_OF(PLACE(k));
    } else {
        #pragma unroll
        for (uint k = 0; k < EACH; k++) key[k] = PLACE(k) < count ? KEY_OF(PLACE(k)) : (key_word)KEY_MASK;
    }
    #pragma unroll
    for (uint k = 0; k < EACH; k++) keys[STAGE(PLACE(k))] = key[k];
    PLACES(for (uint i = item; i < count; i += GROUP) places[i] = PLACE_OF(i);)
    barrier(CLK_LOCAL_MEM_FENCE);
    uint word[EIGHT];
    #pragma unroll
    for (uint k = 0; k < EIGHT; k++) word[k] = DIGIT(keys[STAGE(item * EIGHT + k)], g.pass) << 16 | (item * EIGHT + k);
    for (uint shift = 16; shift < 24; shift += 4) {
        RANK_DIGITS(word, shift, counters, sums)
        #pragma unroll
        for (uint k = 0; k < EIGHT; k++) order[RANK(counters, k)] = word[k];
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint8 next = ((__local const uint8*)order)[item];
        TAKE_EIGHT(word, next)
    }
    // A run of equal digits, from i on, goes to base[d] + i in all, with what this subtracts.
    for (uint i = item; i < count; i += GROUP) {
        const uint d = DIGIT_OF(order[i]);
        if (i == 0 || d != DIGIT_OF(order[i - 1])) base[d] -= i;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (uint k = 0; k < EACH; k++) {
        const uint i = item + k * GROUP;
        if (i < count) {
            const key_word next = keys[STAGE(ORDERED(i))];
            const uint p = base[DIGIT(next, g.pass)] + i;
#if !FINAL
            to[p] = next;
            PLACES(to_places[p] = places[ORDERED(i)];)
#else
            const ulong told = (next ^ g.flip) & KEY_MASK;
            const uint place = places[ORDERED(i)];
            indices[row + p] = place;
            if (TELLS(told)) STORE(value_of(told), values, row + p);
            else STORE(LOAD(x, row + place), values, row + p);
#endif
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    // The next tile's elements follow.
    for (uint i = item; i < count; i += GROUP) {
        const uint d = DIGIT_OF(order[i]);
        if (i + 1 == count || d != DIGIT_OF(order[i + 1])) base[d] += i + 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    }
}
