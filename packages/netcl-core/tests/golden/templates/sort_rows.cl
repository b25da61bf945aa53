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

// Stable sort of short rows of keys of 32 bits (see sort_keys.py): a work-group of GROUP work-items sorts a row of at most
// GROUP * EIGHT elements in local memory by their digits of four bits, the least significant first (LSD radix sort).
//
// A pass counts each work-item's digits, and adds up the counts digit by digit and work-item by work-item: the sum before a count is
// the place of the first element with that digit of that work-item (Satish, Harris and Garland: Designing efficient sorting
// algorithms for manycore GPUs. IPDPS 2009).

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


typedef struct {
    long rows, extent, kept;
    ulong flip;
} row_sorting;

// A work-item's eight elements, by one access of 32 bytes and one of 16: single ones would be in the same banks.
#define TAKE(own, n) \
    own[0] = n.s0, own[1] = n.s1, own[2] = n.s2, own[3] = n.s3, own[4] = n.s4, own[5] = n.s5, own[6] = n.s6, own[7] = n.s7;

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void sort_rows(__global const STORAGE* restrict x, __global STORAGE* restrict values, __global long* restrict indices,
               const row_sorting g) {
    __local uint keys[ALL] __attribute__((aligned(32)));
    __local ushort places[ALL] __attribute__((aligned(16)));
    __local ushort counts_[DIGITS * GROUP] __attribute__((aligned(32)));
    __local ushort sums_[2 * GROUP];
    // PoCL 3.0: see matrix_unit_mma_twin.cl.
    __local ushort* counts = counts_ + min((int)g.extent, 0);
    __local ushort* sums = sums_ + min((int)g.extent, 0);
    const uint item = get_local_id(0), extent = g.extent;
    const long row = get_group_id(0) * g.extent;
    for (uint i = item; i < ALL; i += GROUP) keys[i] = i < extent ? (uint)((key_of(LOAD(x, row + i)) ^ g.flip) & KEY_MASK) : 0xffffffffU;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint key[EIGHT];
    ushort place[EIGHT], before[EIGHT];
    #pragma unroll
    for (uint k = 0; k < EIGHT; k++) place[k] = item * EIGHT + k;
    const uint8 first_keys = ((__local const uint8*)keys)[item];
    TAKE(key, first_keys)
    for (uint shift = 0; shift < 32; shift += 4) {
        for (uint d = 0; d < DIGITS; d++) counts[d * GROUP + item] = 0;
        #pragma unroll
        for (uint k = 0; k < EIGHT; k++) before[k] = counts[(key[k] >> shift & 15) * GROUP + item]++;
        barrier(CLK_LOCAL_MEM_FENCE);
        add_up(counts, sums, item);
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll
        for (uint k = 0; k < EIGHT; k++) {
            const uint to = counts[(key[k] >> shift & 15) * GROUP + item] + before[k];
            keys[to] = key[k];
            places[to] = place[k];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint8 next_keys = ((__local const uint8*)keys)[item];
        const ushort8 next_places = ((__local const ushort8*)places)[item];
        TAKE(key, next_keys)
        TAKE(place, next_places)
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
