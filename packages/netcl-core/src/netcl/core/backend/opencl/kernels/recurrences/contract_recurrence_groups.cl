// All time steps of a recurrent net, and all steps back, in one launch on a device with many small cores. Batch rows are
// independent: a group runs all steps of its ROWS rows, and the weight, which each step reads whole, stays in the caches.
//
// A group has HIDDEN * SPLIT work-items: work-item (unit, part) adds the part-th piece of the sums of its unit for each
// gate, and the first part ends the step. Between two steps is one barrier in global memory, through which the state goes
// from the work-items that write it to all. Rows past the end are the last one again: computed twice, with one result.
// weight is (hidden, gates * hidden) in forward and (gates * hidden, hidden) in backward, so that neighbouring work-items
// read neighbouring numbers. Local memory: SPLIT - 1 sums for each row, gate and unit.

#if SPLIT > 1
#define SHARED(count) __local REAL shared[SPLIT - 1][count][HIDDEN];
#else
#define SHARED(count)
#endif

$kernel [HIDDEN * SPLIT, 1, 1] forward(read REAL* x, read REAL* weight, read REAL* bias, read REAL* state,
        read REAL* cell, write REAL* out, write REAL* cells, write REAL* kept, walk g) {
    SHARED(ROWS * GATES)
    const int part = get_local_id(0) / HIDDEN, u = get_local_id(0) % HIDDEN;
    const int begin = part * CHUNK, end = min(begin + CHUNK, HIDDEN);
    const long rows_begin = get_group_id(0) * ROWS, rows_end = min(g.n, rows_begin + ROWS);
    const long plane = g.n * g.hidden, r = rows_begin;
    ${biases}
    for (long s = 0; s < g.steps; s++) {
        const long now = g.reverse ? g.steps - 1 - s : s, past = g.reverse ? now + 1 : now - 1;
        __global const REAL* before = s == 0 ? state : out + past * plane;
        ${before}
        ${rows}
        ${zeros}
        __global const REAL* w = weight + u + begin * GATES * HIDDEN;
        #pragma unroll 8
        for (int k = begin; k < end; k++, w += GATES * HIDDEN) {
            ${weights}
            ${products}
        }
        ${share}
        if (part == 0) {
            ${add}
            ${results}
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
}

$kernel [HIDDEN * SPLIT, 1, 1] backward(read REAL* weight, read REAL* state, read REAL* cell, read REAL* out,
        read REAL* cells, read REAL* kept, read REAL* by_out, read REAL* by_cells, write REAL* by_x, write REAL* by_sum,
        write REAL* by_state, write REAL* by_cell, write REAL* carry, walk g) {
    SHARED(ROWS)
    const int part = get_local_id(0) / HIDDEN, u = get_local_id(0) % HIDDEN;
    const int begin = part * GATES * CHUNK, end = min(begin + GATES * CHUNK, GATES * HIDDEN);
    const long rows_begin = get_group_id(0) * ROWS, rows_end = min(g.n, rows_begin + ROWS);
    const long plane = g.n * g.hidden, r = rows_begin;
    for (long s = g.steps - 1; s >= -1; s--) {
        const long now = g.reverse ? g.steps - 1 - s : s;
        const long past = g.reverse ? now + 1 : now - 1, next = g.reverse ? now - 1 : now + 1;
        __global const REAL* after = by_sum + next * plane * GATES;
        __global const REAL* carried = carry + ((s + 1) & 1) * plane;
        __global REAL* carry_on = carry + (s & 1) * plane;
        ${before_back}
        ${rows_back}
        ${zeros_back}
        if (s < g.steps - 1) {
            __global const REAL* w = weight + u + begin * HIDDEN;
            #pragma unroll 8
            for (int k = begin; k < end; k++, w += HIDDEN) {
                ${weights_back}
                ${products_back}
            }
        }
        ${share_back}
        if (part == 0) {
            ${add_back}
            ${gradients}
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
}
