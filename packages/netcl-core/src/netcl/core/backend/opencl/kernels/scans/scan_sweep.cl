// The scan of long rows in one pass over the data, for warps (kernels/warps): a work-group scans a tile, and combines its states with the
// state before the tile (look_back.cl).

#define ALL (GROUP * STRETCH)
#define STAGE(i) ((i) + (i) / STRETCH)
#define BEHIND(before, s) { \
        state both = before; \
        APPEND(both.first, both.second, s.first, s.second) \
        s = both; \
    }
#define PLACE(i) (size_t)(origin + (REVERSE ? -(long)(i) : (long)(i)))

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void row_sweep(OPERANDS, SIGNALS, __global STORAGE* restrict out,
               $indices
               const walk g) {
    __local REAL shared[GROUP * (STRETCH + 1)];
    __local state states[2 * GROUP], total;
    $places
    const uint item = get_local_id(0), first = item * STRETCH;
    BEGIN_SIGNALS(ticket)
    const uint row = ticket / (uint)g.chunks, tile = ticket - row * (uint)g.chunks;
    const long begin = (long)tile * ALL, origin = row * g.extent + (REVERSE ? g.extent - 1 - begin : begin);
    const uint count = min((long)ALL, g.extent - begin);
    REAL own[STRETCH];
    if (count == ALL) {
#pragma unroll
        for (uint k = 0; k < STRETCH; k++) own[k] = LOAD(x, PLACE(item + k * GROUP));
    } else {
#pragma unroll
        for (uint k = 0; k < STRETCH; k++) own[k] = LOAD(x, PLACE(min(item + k * GROUP, count - 1)));
    }
#pragma unroll
    for (uint k = 0; k < STRETCH; k++) shared[STAGE(item + k * GROUP)] = own[k];
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint k = 0; k < STRETCH; k++) own[k] = shared[STAGE(first + k)];
    REAL a = own[0];
    SECOND b = SECOND_OF(0, begin + first);
#pragma unroll
    for (uint k = 1; k < STRETCH; k++) APPEND(a, b, own[k], SECOND_OF(0, begin + first + k))
    state s = {a, b};
    states[item] = s;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint now = 0;  // of the two sets of states
    for (uint far = 1; far < GROUP; far *= 2) {
        if (item >= far) BEHIND(states[now + item - far], s)
        now = GROUP - now;
        states[now + item] = s;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    // Behind the row's end are copies of its last element, in states that are not read.
    if (item == GROUP - 1) {
        PUBLISH_STATE(ticket, s)
        total = s;
    }
    state earlier = states[now + max(item, 1u) - 1];  // of the work-items before
    barrier(CLK_LOCAL_MEM_FENCE);
    LOOK_BACK(g.before, row, g.chunks, tile, total, states, carry)
    a = own[0];
    b = SECOND_OF(0, begin + first);
    s = (state){a, b};
    if (item) BEHIND(earlier, s)
    if (tile) BEHIND(carry, s)
    a = s.first, b = s.second;
#pragma unroll
    for (uint k = 0; k < STRETCH; k++) {
        if (k) APPEND(a, b, own[k], SECOND_OF(0, begin + first + k))
        const uint i = first + k;
        shared[STAGE(i)] = RESULT(a, b);
        $place
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint k = 0; k < STRETCH; k++) {
        const uint i = item + k * GROUP;
        if (i < count) {
            STORE(shared[STAGE(i)], out, PLACE(i));
            $index_of_place
        }
    }
    END_SIGNALS
}
