// Scans of rows on devices with coalesced accesses. A work-group of GROUP work-items scans tiles of ALL elements, staged in local
// memory and padded against bank conflicts: a work-item combines STRETCH elements in registers, and the group scans the states of
// its work-items (Hillis and Steele: Data parallel algorithms. Communications of the ACM 29, 1986).
//
// The state before a tile comes in one of two ways. A work-group of a chunk of `length` elements carries it from tile to tile; where
// a row has several chunks, `row_totals` gives their states, and `row_scan` begins with the combination of the earlier ones. With
// warps (kernels/warps) a chunk is a tile, and `row_scan` looks back at the states that others publish (look_back.cl), so that a
// row is read once.

#define ALL (GROUP * STRETCH)
#define STAGE(i) ((i) + (i) / STRETCH)
#define PLACE(i) (size_t)(origin + (REVERSE ? -(long)(i) : (long)(i)))
#define BEHIND(before, s) { \
        state both = before; \
        APPEND(both.first, both.second, s.first, s.second) \
        s = both; \
    }

$if look_back
#define TILES const long begin = head;
$else
#define TILES for (long begin = head; begin < tail; begin += ALL)
#define BEGIN_SIGNALS(number) const size_t number = get_group_id(0);
#define END_SIGNALS
#define TOTAL(i, s) s = totals[i];
$end

$if TOTALS
$kernel [GROUP, 1, 1] row_totals(${operands}, write state totals, walk g) {
$else
$kernel [GROUP, 1, 1] row_scan(${operands}, read state totals if not look_back, write uint* signals if look_back,
        uint signal_words if look_back, write STORAGE out, ${indices}walk g) {
    ${places}
$end
    __local REAL shared[GROUP * (STRETCH + 1)];
    __local state states[2 * GROUP], total;
    const uint item = get_local_id(0), first = item * STRETCH;
    BEGIN_SIGNALS(number)
    const size_t row = number / (size_t)g.chunks, chunk = number - row * g.chunks;
    const long head = chunk * g.length, tail = min(g.extent, head + g.length);
    state carry;
#ifdef TOTAL
    if (chunk && !TOTALS) {
        COMBINE_SHARES(TOTAL, row * g.chunks, (uint)chunk, states)
        carry = states[0];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#endif
    TILES {
        const uint count = min((long)ALL, tail - begin);
        const long origin = (long)row * g.extent + (REVERSE ? g.extent - 1 - begin : begin);
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
        // Behind the row's end are copies of its last element, in states that are not read.
        REAL a = own[0];
        SECOND b = SECOND_OF(0, begin + first);
#pragma unroll
        for (uint k = 1; k < STRETCH; k++) APPEND(a, b, own[k], SECOND_OF(0, begin + first + k))
        state s = {a, b};
        states[item] = s;
        barrier(CLK_LOCAL_MEM_FENCE);
#if TOTALS
        COMBINE(GROUP, GROUP)
        s = states[0];
        if (begin > head) BEHIND(carry, s)
        carry = s;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (item == 0) totals[number] = carry;
#else
        uint now = 0;  // of the two sets of states
        for (uint far = 1; far < GROUP; far *= 2) {
            if (item >= far) BEHIND(states[now + item - far], s)
            now = GROUP - now;
            states[now + item] = s;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        state earlier = states[now + max(item, 1u) - 1];  // of the work-items before
        if (item == GROUP - 1) {
#ifdef LOOK_BACK
            PUBLISH_STATE(number, s)
#endif
            total = s;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#ifdef LOOK_BACK
        LOOK_BACK(g.before, row, g.chunks, chunk, total, states, carry)
#endif
        a = own[0];
        b = SECOND_OF(0, begin + first);
        s = (state){a, b};
        if (item) BEHIND(earlier, s)
        if (begin) BEHIND(carry, s)
        a = s.first, b = s.second;
#pragma unroll
        for (uint k = 0; k < STRETCH; k++) {
            if (k) APPEND(a, b, own[k], SECOND_OF(0, begin + first + k))
            const uint i = first + k;
            shared[STAGE(i)] = RESULT(a, b);
            ${place}
        }
        s = total;
        if (begin) BEHIND(carry, s)
        carry = s;
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (uint k = 0; k < STRETCH; k++) {
            const uint i = item + k * GROUP;
            if (i < count) {
                STORE(shared[STAGE(i)], out, PLACE(i));
                ${index_of_place}
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    END_SIGNALS
#endif
}
