// Few rows of x times the transpose of a packed matrix: out[r, n] is the sum over k of x[r, k] * matrix[n, k].
//
// A row n of the matrix belongs to LANES work-items: each takes every LANES-th group of sixteen columns for all ROWS rows of x,
// and the sums of the lanes are added in a tree. On CPUs LANES is 1, and a work-item has `each` rows of the matrix. Local
// memory: LANES > 1: one float per work-item.

$kernel LOOPS packed_rows(read STORAGE x, ${fields}, write STORAGE out, long rows, long blocks, long each) {
#if LANES > 1
    __local float sums[GROUP];
    const int item = get_local_id(0), lane = item % LANES;
#else
    const int lane = 0;
#endif
    const long begin = get_global_id(0) / LANES * each;
    const long columns = blocks * GROUPS * 16;
    for (long n = begin; n < begin + each; n++) {
        float16 total[ROWS];
        for (int r = 0; r < ROWS; r++) total[r] = 0;
        if (n < rows)
            for (long i = lane; i < blocks * GROUPS; i += LANES) {
                const float16 values = numbers(${names}, n * blocks + i / GROUPS, (int)(i % GROUPS));
                for (int r = 0; r < ROWS; r++) {
                    __global const STORAGE* from = x + r * columns + i * 16;
                    total[r] += values * (float16)(VLOAD(from), VLOAD(from + 8));
                }
            }
        for (int r = 0; r < ROWS; r++) {
            const float8 eight = total[r].lo + total[r].hi;
            const float4 four = eight.lo + eight.hi;
            float sum = (four.x + four.y) + (four.z + four.w);
#if LANES > 1
            sums[item] = sum;
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int step = LANES / 2; step > 0; step /= 2) {
                if (lane < step) sums[item] += sums[item + step];
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            sum = sums[item];
            barrier(CLK_LOCAL_MEM_FENCE);
#endif
            if (n < rows && lane == 0) STORE(sum, out, r * rows + n);
        }
    }
}
