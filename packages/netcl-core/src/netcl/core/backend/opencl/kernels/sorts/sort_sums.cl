// The places of digits of four bits in a pass of radix sort in local memory, by GROUP work-items with EIGHT elements each
// (Satish, Harris and Garland: Designing efficient sorting algorithms for manycore GPUs. IPDPS 2009).

#define EIGHT 8
#define ALL (GROUP * EIGHT)

// Counts a work-item's digits, in sixteen counters of four bits; before[k] of its own digits before k are the same. Counts of the
// digits d and d + 8 share a word of `counts`.
static inline void count_digits(const uint* digits, uchar* before, __local uint* counts, const uint item) {
    ulong tally = 0;
    ${unroll}
    for (uint k = 0; k < EIGHT; k++) {
        const uint at = digits[k] * 4;
        before[k] = tally >> at & 15;
        tally += 1UL << at;
    }
    ${unroll}
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
