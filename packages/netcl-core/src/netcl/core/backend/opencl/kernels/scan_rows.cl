// Scans of many rows on devices with coalesced accesses: a work-group of GROUP work-items walks a row in blocks of GROUP * STRETCH
// elements, staged in local memory and padded against bank conflicts. A work-item combines STRETCH elements, the group scans
// the states of its work-items (Hillis and Steele: Data parallel algorithms. Communications of the ACM 29, 1986), and the state of
// the blocks before is carried along, so that elements are read and written once.

#define STAGE(i) ((i) + (i) / STRETCH)
#define BEHIND(before, s) { \
        state both = before; \
        APPEND(both.first, both.second, s.first, s.second) \
        s = both; \
    }

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void row_scan(OPERANDS, __global STORAGE* restrict out,
              $indices
              const walk g) {
    __local REAL shared[GROUP * (STRETCH + 1)];
    __local state states[2 * GROUP];
    $places
    const size_t item = get_local_id(0), first = item * STRETCH;
    const long step = g.reverse ? -1 : 1;
    state carry;
    for (size_t begin = 0; begin < (size_t)g.extent; begin += GROUP * STRETCH) {
        const size_t count = min((size_t)(GROUP * STRETCH), (size_t)(g.extent - begin)), last = min(count, first + STRETCH);
        const long origin = get_group_id(0) * g.extent + (g.reverse ? g.extent - 1 - (long)begin : (long)begin);
        for (size_t i = item; i < count; i += GROUP) shared[STAGE(i)] = LOAD(x, (size_t)(origin + (long)i * step));
        barrier(CLK_LOCAL_MEM_FENCE);
        state own = {0, 0};
        if (first < count) {
            REAL a = shared[STAGE(first)];
            SECOND b = SECOND_OF(0, (long)(begin + first));
            for (size_t i = first + 1; i < last; i++) APPEND(a, b, shared[STAGE(i)], SECOND_OF(0, (long)(begin + i)))
            own = (state){a, b};
        }
        states[item] = own;
        barrier(CLK_LOCAL_MEM_FENCE);
        size_t now = 0;  // of the two sets of states
        for (size_t far = 1; far < GROUP; far *= 2) {
            if (item >= far && first < count) BEHIND(states[now + item - far], own)
            now = GROUP - now;
            states[now + item] = own;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (first < count) {
            state s = {shared[STAGE(first)], SECOND_OF(0, (long)(begin + first))};
            if (item) BEHIND(states[now + item - 1], s)
            if (begin) BEHIND(carry, s)
            REAL a = s.first;
            SECOND b = s.second;
            for (size_t i = first;;) {
                shared[STAGE(i)] = RESULT(a, b);
                $place
                if (++i >= last) break;
                APPEND(a, b, shared[STAGE(i)], SECOND_OF(0, (long)(begin + i)))
            }
        }
        state all = states[now + (count - 1) / STRETCH];
        if (begin) BEHIND(carry, all)
        carry = all;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (size_t i = item; i < count; i += GROUP) {
            STORE(shared[STAGE(i)], out, (size_t)(origin + (long)i * step));
            $index_of_place
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
