// The counts of a pass of radix sort in local memory: of digits of four bits, by GROUP work-items with EIGHT elements each.

#define EIGHT 8
#define DIGITS 16
#define ALL (GROUP * EIGHT)

// Turns counts of digits into the sums of the counts before; DIGITS of them belong to a work-item.
static inline void add_up(__local ushort* counts, __local ushort* sums, const uint item) {
    __local ushort16* own = (__local ushort16*)counts + item;
    const ushort16 c = *own;
    ushort before[DIGITS];
    ushort sum = 0;
#define ADD(i, c) before[i] = sum, sum += c;
    ADD(0, c.s0) ADD(1, c.s1) ADD(2, c.s2) ADD(3, c.s3) ADD(4, c.s4) ADD(5, c.s5) ADD(6, c.s6) ADD(7, c.s7)
    ADD(8, c.s8) ADD(9, c.s9) ADD(10, c.sa) ADD(11, c.sb) ADD(12, c.sc) ADD(13, c.sd) ADD(14, c.se) ADD(15, c.sf)
    uint now = 0;  // of the two sets of sums
    ushort all = sum;
    sums[item] = all;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint far = 1; far < GROUP; far *= 2) {
        if (item >= far) all += sums[now + item - far];
        now = GROUP - now;
        sums[now + item] = all;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const ushort16 others = (ushort16)(ushort)(all - sum);
    *own = others + (ushort16)(before[0], before[1], before[2], before[3], before[4], before[5], before[6], before[7], before[8],
                               before[9], before[10], before[11], before[12], before[13], before[14], before[15]);
}

