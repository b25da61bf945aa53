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
// The elements of sorts: a key (see sort_keys.py) and the position that it came from.

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


#if defined(DTYPE_FLOAT64) || defined(DTYPE_INT64)
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

// Stable radix sort of long rows by digits of eight bits, the least significant first (LSD), for devices with work-groups. A pass
// has three steps: `block_counts` counts the digits of each block of ALL elements, a scan of the counts, digit by digit and
// block by block, gives where each block's elements with a digit go, and `block_scatter` sorts a block by the digit in local
// memory and writes its runs of equal digits there.
//
// The first pass makes elements (sort_elements.cl) of x, the last one writes values and positions.

typedef struct {
    long extent, blocks, shift;
    ulong flip;
} digits;

#define RADIX 256
#if FIRST
#define SOURCE __global const STORAGE* restrict from
#define TAKEN(i) ELEMENT((key_of(LOAD(from, row + begin + (i))) ^ g.flip) & KEY_MASK, (ulong)(begin + (i)))
#else
#define SOURCE __global const element* restrict from
#define TAKEN(i) from[row + begin + (i)]
#endif
#define DIGIT(e) ((uint)(KEY(e) >> g.shift) & (RADIX - 1))

// Block `block` of row `number`, of which `count` elements are there.
#define BLOCK \
    const uint item = get_local_id(0); \
    const long number = get_group_id(0) / g.blocks, block = get_group_id(0) % g.blocks; \
    const long row = number * g.extent, begin = block * ALL; \
    const uint count = min((long)ALL, g.extent - begin)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void block_counts(SOURCE, __global int* restrict counts, const digits g) {
    __local uint found[RADIX];
    BLOCK;
    for (uint d = item; d < RADIX; d += GROUP) found[d] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = item; i < count; i += GROUP) {
        const element e = TAKEN(i);
        atomic_inc(&found[DIGIT(e)]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint d = item; d < RADIX; d += GROUP) counts[(number * RADIX + d) * g.blocks + block] = found[d];
}

#if FINAL
#define TARGET __global const STORAGE* restrict x, __global STORAGE* restrict values, __global long* restrict indices
#else
#define TARGET __global element* restrict to
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void block_scatter(SOURCE, __global const int* restrict counts, __global const int* restrict sums_of_counts, TARGET, const digits g) {
    __local element shared[ALL];
    __local ushort counts_[DIGITS * GROUP] __attribute__((aligned(32)));
    __local ushort sums_[2 * GROUP];
    __local uint base[RADIX], start[RADIX];
    // PoCL 3.0: see matrix_unit_mma_twin.cl.
    __local ushort* own_counts = counts_ + min((int)g.blocks, 0);
    __local ushort* sums = sums_ + min((int)g.blocks, 0);
    BLOCK;
    for (uint d = item; d < RADIX; d += GROUP) {
        const long at = (number * RADIX + d) * g.blocks + block;
        base[d] = sums_of_counts[at] - counts[at];
    }
    for (uint i = item; i < ALL; i += GROUP) shared[i] = i < count ? TAKEN(i) : LAST;
    barrier(CLK_LOCAL_MEM_FENCE);
    element e[EIGHT];
    ushort before[EIGHT];
    for (uint half_digit = 0; half_digit < 8; half_digit += 4) {
        #pragma unroll
        for (uint k = 0; k < EIGHT; k++) e[k] = shared[item * EIGHT + k];
        for (uint d = 0; d < DIGITS; d++) own_counts[d * GROUP + item] = 0;
        #pragma unroll
        for (uint k = 0; k < EIGHT; k++) before[k] = own_counts[(DIGIT(e[k]) >> half_digit & 15) * GROUP + item]++;
        barrier(CLK_LOCAL_MEM_FENCE);
        add_up(own_counts, sums, item);
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll
        for (uint k = 0; k < EIGHT; k++) shared[own_counts[(DIGIT(e[k]) >> half_digit & 15) * GROUP + item] + before[k]] = e[k];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (uint i = item; i < count; i += GROUP) {
        const uint d = DIGIT(shared[i]);
        if (i == 0 || d != DIGIT(shared[i - 1])) start[d] = i;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = item; i < count; i += GROUP) {
        const element one = shared[i];
        const uint d = DIGIT(one);
        const long p = row + base[d] + (i - start[d]);
#if FINAL
        const ulong key = (KEY(one) ^ g.flip) & KEY_MASK;
        indices[p] = INDEX_OF(one);
        if (TELLS(key)) STORE(value_of(key), values, p);
        else STORE(LOAD(x, row + (long)INDEX_OF(one)), values, p);
#else
        to[p] = one;
#endif
    }
}
