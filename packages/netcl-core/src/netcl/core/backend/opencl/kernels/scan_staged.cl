// totals and scan for long rows on devices with coalesced accesses: a work-group of GROUP work-items stages chunks of
// STRETCH in local memory, padded by one element each against bank conflicts.
#define STAGE(i) ((i) + (i) / STRETCH)

#define STAGES \
    __local REAL shared[GROUP * (STRETCH + 1)]; \
    const size_t groups = (g.chunks + GROUP - 1) / GROUP, item = get_local_id(0); \
    const size_t plane = get_group_id(0) / groups, begin = get_group_id(0) % groups * GROUP * STRETCH; \
    const size_t count = min((size_t)(GROUP * STRETCH), (size_t)(g.extent - begin)); \
    const size_t row = plane * g.chunks + begin / STRETCH + item; \
    const size_t first = item * STRETCH, last = min(count, first + STRETCH); \
    const long step = g.reverse ? -1 : 1, origin = plane * g.extent + (g.reverse ? g.extent - 1 - (long)begin : (long)begin); \
    for (size_t i = item; i < count; i += GROUP) shared[STAGE(i)] = LOAD(x, (size_t)(origin + (long)i * step)); \
    barrier(CLK_LOCAL_MEM_FENCE)

__kernel void staged_totals(OPERANDS, __global state* restrict to, const walk g) {
    STAGES;
    if (first >= count) return;
    REAL a = shared[STAGE(first)];
    SECOND b = SECOND_OF(0, (long)(begin + first));
    for (size_t i = first + 1; i < last; i++) APPEND(a, b, shared[STAGE(i)], SECOND_OF(0, (long)(begin + i)))
    to[row] = (state){a, b};
}

__kernel void staged_scan(OPERANDS, __global const state* restrict carries, __global STORAGE* restrict out,
                          $indices
                          const walk g) {
    STAGES;
    if (first < count) {
        state s = {shared[STAGE(first)], SECOND_OF(0, (long)(begin + first))};
        if (begin + first) {
            state t = carries[row];
            APPEND(t.first, t.second, s.first, s.second)
            s = t;
        }
        REAL a = s.first;
        SECOND b = s.second;
        for (size_t i = first;;) {
            shared[STAGE(i)] = RESULT(a, b);
            $index
            if (++i >= last) break;
            APPEND(a, b, shared[STAGE(i)], SECOND_OF(0, (long)(begin + i)))
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t i = item; i < count; i += GROUP) STORE(shared[STAGE(i)], out, (size_t)(origin + (long)i * step));
}
