// The software emulation (twin) of each unit with fragments described by a row of the table, in plain OpenCL C: the
// lanes of a warp put their elements of both fragments in local memory, and each computes its own sums. Control flow
// around a multiply-accumulate is uniform over the work-group, because of the barriers.

#define FRAGMENT_ELEMENTS ((FRAGMENT_M + FRAGMENT_N) * (FRAGMENT_K / WORDS))

// See matrix_unit_mma_twin.cl for `some`.
#define UNIT_MEMORY(some) \
    __local ELEMENT exchange[WARPS_M * WARPS_N * FRAGMENT_ELEMENTS]; \
    __local ELEMENT* fragments = exchange + min((int)(some), 0);
#define MULTIPLY_ACCUMULATE(sums, a, b) multiply_accumulate(sums, a, b, fragments, warp, lane)

static inline void multiply_accumulate(SUM* sums, const ELEMENT* a, const ELEMENT* b, __local ELEMENT* fragments,
                                       const uint warp, const uint lane) {
    const uint depth = FRAGMENT_K / WORDS, left = warp * FRAGMENT_ELEMENTS, right = left + FRAGMENT_M * depth;
    // Some units have each element in several lanes: the first of them puts it.
    if (lane < FRAGMENT_M * depth / A_COUNT)
        for (uint e = 0; e < A_COUNT; e++) fragments[left + A_ROW(lane, e) * depth + A_K(lane, e)] = a[e];
    if (lane < FRAGMENT_N * depth / B_COUNT)
        for (uint e = 0; e < B_COUNT; e++) fragments[right + B_COLUMN(lane, e) * depth + B_K(lane, e)] = b[e];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint e = 0; e < SUMS; e++) {
        SUM sum = sums[e];
        for (uint k = 0; k < depth; k++)
            sum += element(fragments[left + SUM_ROW(lane, e) * depth + k]) *
                   element(fragments[right + SUM_COLUMN(lane, e) * depth + k]);
        sums[e] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
