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
        $unroll
        for (uint k = 0; k < EIGHT; k++) e[k] = shared[item * EIGHT + k];
        for (uint d = 0; d < DIGITS; d++) own_counts[d * GROUP + item] = 0;
        $unroll
        for (uint k = 0; k < EIGHT; k++) before[k] = own_counts[(DIGIT(e[k]) >> half_digit & 15) * GROUP + item]++;
        barrier(CLK_LOCAL_MEM_FENCE);
        add_up(own_counts, sums, item);
        barrier(CLK_LOCAL_MEM_FENCE);
        $unroll
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
