// The software twin of matrix_unit_mma.cl: the same fragments of the same work-items, in plain OpenCL C. A multiply-accumulate
// exchanges fragments through local memory, so control flow around it is uniform over the work-group.
//
// Fragments of 16 x 16 of A and B: a work-item has two adjacent elements along k in each of x, y, z, w. Sums of 16 x 8.

// PoCL 3.0 shares an array in local memory between work-groups that run at the same time where its address itself is an argument
// of a function with barriers; an offset that compilers do not know to be 0 avoids that.
#define UNIT_MEMORY __local uint exchange[ITEMS * 6]; __local uint* fragments = exchange + min((int)g.k, 0);

static inline uint pair_along(__local const ushort* tile, const uint index, const uint k) {
    return tile[ALONG(index, index, k / 8) + k % 8] | (uint)tile[ALONG(index, index, k / 8) + k % 8 + 1] << 16;
}

static inline uint pair_across(__local const ushort* tile, const uint index, const uint k) {
    return tile[ACROSS(k, k, index / 8) + index % 8] | (uint)tile[ACROSS(k + 1, k + 1, index / 8) + index % 8] << 16;
}

#if A_ALONG
#define PAIR_A(index, k) pair_along(tile, index, k)
#else
#define PAIR_A(index, k) pair_across(tile, index, k)
#endif
#if B_ALONG
#define PAIR_B(index, k) pair_along(tile, index, k)
#else
#define PAIR_B(index, k) pair_across(tile, index, k)
#endif

static inline uint4 fragment_a(__local const ushort* tile, const uint row, const uint k, const uint lane) {
    const uint i = row + lane / 4, at = k + lane % 4 * 2;
    return (uint4)(PAIR_A(i, at), PAIR_A(i + 8, at), PAIR_A(i, at + 8), PAIR_A(i + 8, at + 8));
}

static inline uint4 fragment_b(__local const ushort* tile, const uint column, const uint k, const uint lane) {
    const uint j = column + lane / 4, at = k + lane % 4 * 2;
    return (uint4)(PAIR_B(j, at), PAIR_B(j, at + 8), PAIR_B(j + 8, at), PAIR_B(j + 8, at + 8));
}

static inline void multiply(float sums[4], const uint4 a, const uint b0, const uint b1, __local uint* fragments, const int item) {
    const int lane = item % 32, first = item - lane;
    fragments[item * 6] = a.x, fragments[item * 6 + 1] = a.y, fragments[item * 6 + 2] = a.z, fragments[item * 6 + 3] = a.w;
    fragments[item * 6 + 4] = b0, fragments[item * 6 + 5] = b1;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int e = 0; e < 4; e++) {
        const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        float sum = sums[e];
        for (int k = 0; k < 16; k++) {
            const uint left = fragments[(first + row % 8 * 4 + k % 8 / 2) * 6 + row / 8 + k / 8 * 2];
            const uint right = fragments[(first + column * 4 + k % 8 / 2) * 6 + 4 + k / 8];
            sum += element(left >> k % 2 * 16) * element(right >> k % 2 * 16);
        }
        sums[e] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
#define MULTIPLY(sums, a, b0, b1) multiply(sums, a, b0, b1, fragments, item)

