// The software twin of matrix_unit_mma.cl: the same fragments of the same work-items, in plain OpenCL C. A multiply-accumulate
// exchanges fragments through local memory, so control flow around it is uniform over the work-group.
//
// Fragments of 16 x 16 of A and B: a work-item has two adjacent elements along k in each of x, y, z, w, or one of float32. Sums
// of 16 x 8.

#if WORDS == 2
#define ADD_PRODUCTS(sum, left, right) sum += element(left) * element(right)
#else
#define ADD_PRODUCTS(sum, left, right) \
    sum += element(left) * element(right); \
    sum += element(left >> 16) * element(right >> 16)
#endif

// PoCL 3.0 shares an array in local memory between work-groups that run at the same time where its address itself is an argument
// of a function with barriers; an offset that compilers do not know to be 0 avoids that: `some` is an argument of at least 0.
#define UNIT_MEMORY(some) __local uint exchange[ITEMS * 6]; __local uint* fragments = exchange + min((int)(some), 0);

static inline void multiply(float* sums, const uint4 a, const uint b0, const uint b1, __local uint* fragments, const int item) {
    const int lane = item % 32, first = item - lane;
    fragments[item * 6] = a.x, fragments[item * 6 + 1] = a.y, fragments[item * 6 + 2] = a.z, fragments[item * 6 + 3] = a.w;
    fragments[item * 6 + 4] = b0, fragments[item * 6 + 5] = b1;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int e = 0; e < 4; e++) {
        const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        float sum = sums[e];
        for (int k = 0; k < 8; k++) {
            const uint left = fragments[(first + row % 8 * 4 + k % 4) * 6 + row / 8 + k / 4 * 2];
            const uint right = fragments[(first + column * 4 + k % 4) * 6 + 4 + k / 4];
            ADD_PRODUCTS(sum, left, right);
        }
        sums[e] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
#define MULTIPLY(sums, a, b0, b1) multiply(sums, a, b0, b1, fragments, item)
