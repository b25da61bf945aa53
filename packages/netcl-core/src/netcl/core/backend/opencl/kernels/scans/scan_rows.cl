// Scans of rows on devices with coalesced accesses: a work-group of GROUP work-items iterates over a chunk of a row in
// blocks of GROUP * STRETCH elements, staged in local memory and padded against bank conflicts. A work-item combines
// STRETCH elements, the group scans the states of its work-items (Hillis and Steele: Data parallel algorithms.
// Communications of the ACM 29, 1986), and the state of the blocks before is carried along.
//
// A row of one chunk is read once. For other rows `row_totals` gives the states of the chunks, and `row_scan` begins
// with the combination of the earlier states.

#define STAGE(i) ((i) + (i) / STRETCH)
#define PLACE(i) (size_t)(origin + (long)(i) * step)
#define BEHIND(before, s) { \
        state both = before; \
        APPEND(both.first, both.second, s.first, s.second) \
        s = both; \
    }

#define CHUNK \
    const uint item = get_local_id(0), first = item * STRETCH; \
    const size_t row = get_group_id(0) / g.chunks, chunk = get_group_id(0) % g.chunks; \
    const size_t head = chunk * g.length, tail = min((size_t)g.extent, head + (size_t)g.length); \
    const long step = g.reverse ? -1 : 1;

// A block of `count` elements from `begin` on: staged, after all its loads are under way, and `own`, the state of a work-item's.
#define BLOCK \
    const uint count = min((size_t)(GROUP * STRETCH), tail - begin), last = min(count, first + STRETCH); \
    const long origin = row * g.extent + (g.reverse ? g.extent - 1 - (long)begin : (long)begin); \
    REAL loaded[STRETCH]; \
    for (uint k = 0; k < STRETCH; k++) \
        loaded[k] = LOAD(x, (size_t)(origin + (long)min(item + k * GROUP, count - 1) * step)); \
    for (uint k = 0; k < STRETCH; k++) \
        if (item + k * GROUP < count) shared[STAGE(item + k * GROUP)] = loaded[k]; \
    barrier(CLK_LOCAL_MEM_FENCE); \
    state own = {0, 0}; \
    if (first < count) { \
        REAL a = shared[STAGE(first)]; \
        SECOND b = SECOND_OF(0, (long)(begin + first)); \
        for (uint i = first + 1; i < last; i++) APPEND(a, b, shared[STAGE(i)], SECOND_OF(0, (long)(begin + i))) \
        own = (state){a, b}; \
    } \
    states[item] = own; \
    barrier(CLK_LOCAL_MEM_FENCE)

// Combines the first `n` states into the first one.
#define COMBINE(n) \
    for (uint far = 1; far < (n); far *= 2) { \
        if (item % (2 * far) == 0 && item + far < (n)) { \
            state behind = states[item + far]; \
            BEHIND(states[item], behind) \
            states[item] = behind; \
        } \
        barrier(CLK_LOCAL_MEM_FENCE); \
    }

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void row_totals(OPERANDS, __global state* restrict totals, const walk g) {
    __local REAL shared[GROUP * (STRETCH + 1)];
    __local state states[GROUP];
    CHUNK;
    state carry;
    for (size_t begin = head; begin < tail; begin += GROUP * STRETCH) {
        BLOCK;
        const uint n = (count + STRETCH - 1) / STRETCH;
        COMBINE(n)
        state all = states[0];
        if (begin > head) BEHIND(carry, all)
        carry = all;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (item == 0) totals[get_group_id(0)] = carry;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void row_scan(OPERANDS, __global const state* restrict totals, __global STORAGE* restrict out,
              $indices
              const walk g) {
    __local REAL shared[GROUP * (STRETCH + 1)];
    __local state states[2 * GROUP];
    $places
    CHUNK;
    state carry;
    if (chunk) {
        const size_t share = (chunk + GROUP - 1) / GROUP, n = (chunk + share - 1) / share;
        if (item < n) {
            state own = totals[row * g.chunks + item * share];
            for (size_t i = item * share + 1; i < min(chunk, (item + 1) * share); i++) {
                const state behind = totals[row * g.chunks + i];
                APPEND(own.first, own.second, behind.first, behind.second)
            }
            states[item] = own;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        COMBINE(n)
        carry = states[0];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (size_t begin = head; begin < tail; begin += GROUP * STRETCH) {
        BLOCK;
        uint now = 0;  // of the two sets of states
        for (uint far = 1; far < GROUP; far *= 2) {
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
            for (uint i = first;;) {
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
        for (uint i = item; i < count; i += GROUP) {
            STORE(shared[STAGE(i)], out, PLACE(i));
            $index_of_place
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
