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

