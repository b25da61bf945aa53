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
