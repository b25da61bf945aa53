// compaction/true_1
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_UINT8 1
#define STARTS 0
#define ALONE 1
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE uchar
#define REAL uchar
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// The positions of the true elements of a mask, for compaction.cl.
#define SOURCE __global const uchar* restrict mask
#define HOLDS(i) (mask[i] != 0)
#define TARGET __global long* restrict out
#define LIST(i, at) out[at] = (i);

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
// Stream compaction: lists the elements for which HOLDS(i) is true, which the text before this defines, in order. `count_true` counts
// those of each chunk of `length` elements, and `list_true` lists them after those of all chunks before. With warps (kernels/warps) a
// chunk is a tile, and `list_true` looks back at the counts that others publish (look_back.cl) and writes how many there are in all.

#define SIZES const long size, const long length
#ifdef ALONE

__kernel void count_true(SOURCE, __global long* restrict counts, SIZES) {
    const long first = get_global_id(0) * length, last = min(size, first + length);
    long count = 0;
    for (long i = first; i < last; i++) count += HOLDS(i);
    counts[get_global_id(0)] = count;
}

__kernel void list_true(SOURCE, __global const long* restrict counts, TARGET, SIZES) {
    const long first = get_global_id(0) * length, last = min(size, first + length);
    long at = 0;
    for (size_t chunk = 0; chunk < get_global_id(0); chunk++) at += counts[chunk];
    for (long i = first; i < last; i++)
        if (HOLDS(i)) {
            LIST(i, at)
            at++;
        }
}

#else

#define ALL (GROUP * EACH)
#define HELD(i) (HOLDS(min(i, tail - 1)) & ((i) < tail))  // without a branch, so that all loads of a tile are under way
#define BEHIND(before, s) s += before;
#ifdef SIGNALS
#define TILES const long begin = head;
#define COUNT __global long* restrict count,
#else
#define SIGNALS __global const long* restrict counts
#define TILES for (long begin = head; begin < tail; begin += ALL)
#define COUNT
#define BEGIN_SIGNALS(number) const uint number = get_group_id(0);
#define END_SIGNALS
#define COUNT_OF(i, s) s = counts[i];

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void count_true(SOURCE, __global long* restrict counts, SIZES) {
    __local uint sum;
    const uint item = get_local_id(0);
    const long head = get_group_id(0) * length, tail = min(size, head + length);
    if (item == 0) sum = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint own = 0;
    for (long begin = head + item; begin < tail; begin += ALL)
        for (uint k = 0; k < EACH; k++) own += HELD(begin + k * GROUP);
    atomic_add(&sum, own);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0) counts[get_group_id(0)] = sum;
}
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void list_true(SOURCE, SIGNALS, TARGET, COUNT SIZES) {
    __local uchar flags[ALL] __attribute__((aligned(16)));
    __local ushort places[ALL];  // in the tile, of the elements listed
    __local uint sums[2 * GROUP];
    __local state states[GROUP], total;
    const uint item = get_local_id(0);
    BEGIN_SIGNALS(number)
    const long head = number * length, tail = min(size, head + length);
    state carry = 0;
#ifdef COUNT_OF
    if (number) {
        COMBINE_SHARES(COUNT_OF, 0, number, states)
        carry = states[0];
    }
#endif
    TILES {
        uchar held[EACH];
        for (uint k = 0; k < EACH; k++) held[k] = HELD(begin + item + k * GROUP);
        for (uint k = 0; k < EACH; k++) flags[item + k * GROUP] = held[k];
        barrier(CLK_LOCAL_MEM_FENCE);
        const uchar16 own = ((__local const uchar16*)flags)[item];
        const uint listed = own.s0 + own.s1 + own.s2 + own.s3 + own.s4 + own.s5 + own.s6 + own.s7
            + own.s8 + own.s9 + own.sa + own.sb + own.sc + own.sd + own.se + own.sf;
        SUM_UP(sums, GROUP, item, listed, all, now)
        const uint of_tile = sums[now + GROUP - 1];
#ifdef LOOK_BACK
        if (item == 0) {
            PUBLISH_STATE(number, of_tile)
            total = of_tile;
        }
#endif
        uint to = all - listed;
#define PLACE(k, flag) if (flag) places[to++] = item * EACH + (k);
        PLACE(0, own.s0) PLACE(1, own.s1) PLACE(2, own.s2) PLACE(3, own.s3) PLACE(4, own.s4) PLACE(5, own.s5)
        PLACE(6, own.s6) PLACE(7, own.s7) PLACE(8, own.s8) PLACE(9, own.s9) PLACE(10, own.sa) PLACE(11, own.sb)
        PLACE(12, own.sc) PLACE(13, own.sd) PLACE(14, own.se) PLACE(15, own.sf)
        barrier(CLK_LOCAL_MEM_FENCE);
#ifdef LOOK_BACK
        LOOK_BACK(1, 0, get_num_groups(0), number, total, states, carry)
#endif
        for (uint i = item; i < of_tile; i += GROUP) {
            LIST(begin + places[i], (long)carry + i)
        }
        carry += of_tile;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#ifdef LOOK_BACK
    if (number == get_num_groups(0) - 1 && item == 0) *count = carry;
#endif
    END_SIGNALS
}

#endif
