// compaction/true_1
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_UINT8 1
#define ALONE 1
#define STARTS 0
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

// Stream compaction: lists the elements for which HOLDS(i) is true, which the text before this defines, in order, in two steps.
// `count_true` counts those of each chunk of `length` elements, and `list_true` lists them after those of all chunks before.

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

#define EACH 16  // elements of a work-item in a block
#define HELD(i) (HOLDS(min(i, tail - 1)) & ((i) < tail))  // without a branch, so that all loads of a block are under way
#define CHUNK \
    const uint item = get_local_id(0); \
    const long head = get_group_id(0) * length, tail = min(size, head + length)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void count_true(SOURCE, __global long* restrict counts, SIZES) {
    __local uint sum;
    CHUNK;
    if (item == 0) sum = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint own = 0;
    for (long begin = head + item; begin < tail; begin += GROUP * EACH)
        for (uint k = 0; k < EACH; k++) own += HELD(begin + k * GROUP);
    atomic_add(&sum, own);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0) counts[get_group_id(0)] = sum;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void list_true(SOURCE, __global const long* restrict counts, TARGET, SIZES) {
    __local long before[GROUP];
    __local uchar flags[GROUP * EACH] __attribute__((aligned(16)));
    __local ushort places[GROUP * EACH];  // in the block, of the elements listed
    __local uint sums[2 * GROUP];
    CHUNK;
    long earlier = 0;
    for (size_t chunk = item; chunk < get_group_id(0); chunk += GROUP) earlier += counts[chunk];
    before[item] = earlier;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = GROUP / 2; step > 0; step /= 2) {
        if (item < step) before[item] += before[item + step];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    long at = before[0];
    for (long begin = head; begin < tail; begin += GROUP * EACH) {
        uchar held[EACH];
        for (uint k = 0; k < EACH; k++) held[k] = HELD(begin + item + k * GROUP);
        for (uint k = 0; k < EACH; k++) flags[item + k * GROUP] = held[k];
        barrier(CLK_LOCAL_MEM_FENCE);
        const uchar16 own = ((__local const uchar16*)flags)[item];
        const uint listed = own.s0 + own.s1 + own.s2 + own.s3 + own.s4 + own.s5 + own.s6 + own.s7
            + own.s8 + own.s9 + own.sa + own.sb + own.sc + own.sd + own.se + own.sf;
        SUM_UP(sums, GROUP, item, listed, all, now)
        uint to = all - listed;
#define PLACE(k, flag) if (flag) places[to++] = item * EACH + (k);
        PLACE(0, own.s0) PLACE(1, own.s1) PLACE(2, own.s2) PLACE(3, own.s3) PLACE(4, own.s4) PLACE(5, own.s5)
        PLACE(6, own.s6) PLACE(7, own.s7) PLACE(8, own.s8) PLACE(9, own.s9) PLACE(10, own.sa) PLACE(11, own.sb)
        PLACE(12, own.sc) PLACE(13, own.sd) PLACE(14, own.se) PLACE(15, own.sf)
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint count = sums[now + GROUP - 1];
        for (uint i = item; i < count; i += GROUP) {
            LIST(begin + places[i], at + i)
        }
        at += count;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

#endif
