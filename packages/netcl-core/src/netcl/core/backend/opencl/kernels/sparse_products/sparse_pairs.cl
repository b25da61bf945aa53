// Sampled dense-dense product (SDDMM): out[i] is the dot product of row rows[i] of a and row columns[i] of b.
//
// LANES work-items share a pair: each adds every LANES-th product in order, then the sums are added in a tree, the same one on
// every run. Local memory: one REAL per work-item. On CPUs LANES is 1 and a work-item has `block` pairs.

typedef struct {
    long count, width, block;
} pairs;

$kernel sparse_pairs(read STORAGE a, read STORAGE b, read int rows, read int columns, write STORAGE out, pairs g) {
#if LANES > 1
    __local REAL sums[GROUP];
#endif
    const int item = (int)get_local_id(0), lane = item % LANES;
    const long first = get_global_id(0) / LANES * g.block;
    for (long i = first; i < first + g.block; i++) {
        REAL sum = 0;
        if (i < g.count) {
            const long left = rows[i] * g.width, right = columns[i] * g.width;
            for (long c = lane; c < g.width; c += LANES) sum += LOAD(a, left + c) * LOAD(b, right + c);
        }
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
        if (i < g.count && lane == 0) STORE(sum, out, i);
    }
}
