// scan_rows/sum_float32
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define TOTALS 0
#define GROUP 64
#define STRETCH 16
#define FAN 64
#define REVERSE 0
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// The layout of a scan, (before, extent, after), and the state that is carried along. scan_states.py writes the part `state`: the members
// of a state and the macros that combine states.

typedef struct {
    long before, extent, after, length, chunks, share, reverse;
} walk;

#define SECOND REAL
#define FIRST(p) LOAD(x, p)
#define SECOND_OF(p, i) 0
#define APPEND(a, b, c, d) { \
    const REAL next = c, sum = a + next, part = sum - a; \
    b += d + ((a - (sum - part)) + (next - part)); \
    a = sum; \
}
#define RESULT(a, b) ((b) - (b) == 0 ? (a) + (b) : (a))
#define EMIT(a, b, p) STORE(RESULT(a, b), out, p)

typedef struct {
    REAL first;
    SECOND second;
} state;

// The sum of `own` over the work-items up to this one of N, in `all` (Hillis and Steele: Data parallel algorithms. Communications of
// the ACM 29, 1986, by steps of four). `sums` has room for 2 * N; sums[now + i] is the sum up to work-item i afterwards.
#define SUM_UP(sums, N, item, own, all, now) \
    uint all = (own), now = 0; \
    sums[item] = all; \
    barrier(CLK_LOCAL_MEM_FENCE); \
    for (uint far = 1; far < (N); far *= 4) { \
        if (item >= far) all += sums[now + item - far]; \
        if (item >= 2 * far) all += sums[now + item - 2 * far]; \
        if (item >= 3 * far) all += sums[now + item - 3 * far]; \
        now = (N) - now; \
        sums[now + item] = all; \
        barrier(CLK_LOCAL_MEM_FENCE); \
    }

// Combines the first `n` of `states`, at most `most`, into the first one. Intel's CPU compiler gets a loop with barriers wrong if its
// end it does not know to be the same for all work-items.
#define COMBINE(n, most) \
    for (uint far = 1; far < (most); far *= 2) { \
        if (item % (2 * far) == 0 && item + far < (n)) { \
            state behind = states[item + far]; \
            BEHIND(states[item], behind) \
            states[item] = behind; \
        } \
        barrier(CLK_LOCAL_MEM_FENCE); \
    }

// Combines `number` states, which TAKE(index, s) reads from `begin` on, into the first of `states`, in their order.
#define COMBINE_SHARES(TAKE, begin, number, states) { \
        const uint share = ((number) + GROUP - 1) / GROUP, n = ((number) + share - 1) / share; \
        if (item < n) { \
            state of_share; \
            TAKE((begin) + item * share, of_share) \
            for (uint i = item * share + 1; i < min((number), (item + 1) * share); i++) { \
                state behind; \
                TAKE((begin) + i, behind) \
                BEHIND(of_share, behind) \
                of_share = behind; \
            } \
            states[item] = of_share; \
        } \
        barrier(CLK_LOCAL_MEM_FENCE); \
        COMBINE(n, GROUP) \
    }
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

#define TILES for (long begin = head; begin < tail; begin += ALL)
#define BEGIN_SIGNALS(number) const size_t number = get_group_id(0);
#define END_SIGNALS
#define TOTAL(i, s) s = totals[i];

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void row_scan(
    __global const STORAGE *restrict x,
    __global const state *restrict totals,
    __global STORAGE *restrict out,
    const walk g) {
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
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    END_SIGNALS
#endif
}
