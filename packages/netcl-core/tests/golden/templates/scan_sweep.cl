// scan_sweep/sum_float32_nvidia
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define GROUP 128
#define STRETCH 32
#define FAN 64
#define REVERSE 0
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// The layout of a scan, (before, extent, after), and the state that is carried along. scan_states.py writes `$state`: the members
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
#define OPERANDS __global const STORAGE* restrict x

typedef struct {
    REAL first;
    SECOND second;
} state;

// A warp of 32 work-items on NVIDIA's GPUs from compute capability 7.0 on, in inline PTX, and words in global memory that
// work-groups publish and read while others run.

#define WARP 32
#define WARP_MEMORY
#define WARP_SYNC asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")

// The number of a work-group in the order in which they begin, which is that of their ids.
#define TAKE_TICKET(ticket, counter) const uint ticket = get_group_id(0);

// Bits of the lanes with a `flag` that is not zero.
#define BALLOT(lanes, flag) \
    uint lanes; \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(lanes) : "r"((uint)(flag)));

// Bits of the lanes with the same `digit` of eight bits.
#define SHARE_BIT(peers, digit, bit) \
    asm volatile("{ .reg .pred p; .reg .b32 m; and.b32 m, %1, " #bit "; setp.ne.u32 p, m, 0; vote.sync.ballot.b32 m, p, 0xffffffff; " \
                 "@!p not.b32 m, m; and.b32 %0, %0, m; }" : "+r"(peers) : "r"(digit))
#define PEERS(peers, digit) \
    uint peers = ~0u; \
    SHARE_BIT(peers, digit, 1); SHARE_BIT(peers, digit, 2); SHARE_BIT(peers, digit, 4); SHARE_BIT(peers, digit, 8); \
    SHARE_BIT(peers, digit, 16); SHARE_BIT(peers, digit, 32); SHARE_BIT(peers, digit, 64); SHARE_BIT(peers, digit, 128);

#define PUBLISH(place, word) asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(place), "r"(word) : "memory")

static inline uint published(__global const uint* place) {
    uint word;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(place) : "memory");
    return word;
}

// Words with a flag, two words of memory each; one access moves both.
#define PUBLISH_FLAGGED(place, word, flag) \
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(place), "l"((ulong)(word) << 32 | (flag)) : "memory")
#define AWAIT_FLAGGED(places, read, count, flag) { \
        bool missing; \
        do { \
            missing = false; \
            for (uint w = 0; w < (count); w++) { \
                ulong flagged; \
                asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(flagged) : "l"((places) + 2 * w) : "memory"); \
                missing |= (uint)flagged != (flag); \
                (read)[w] = flagged >> 32; \
            } \
        } while (missing); \
    }
// The state before a tile in one pass over the data (decoupled look-back: Merrill and Garland, Single-pass parallel prefix scan with
// decoupled look-back, 2016). Work-groups take the tiles of a row in the order in which they begin, and publish the states of their
// tiles; the last tile of FAN publishes the state of all FAN. The state before a tile combines the states of whole FANs
// and of the tiles after them, in a fixed order, so that the bits of a result do not depend on how fast tiles are.
//
// `signals` are words that the engine keeps: the number of the last launch, how many work-groups of this one have ended, a counter of
// tickets and an unused word, then for each tile and each FAN the words of a state. A published state has the number of
// the launch as its flag, so that states of earlier launches need not be cleared. The text before this defines `state`,
// GROUP, FAN and BEHIND(before, s), which puts the state `before` before the state `s`.

#define WORDS (sizeof(state) / 4)
#define STATE_AT(index) (signals + 4 + (index) * 2 * WORDS)
#define SIGNALS __global uint* signals, const uint signal_words
#define BEGIN_SIGNALS(ticket) \
    TAKE_TICKET(ticket, signals + 2) \
    const uint launch = published(signals) + 1;
// Of the last work-group to end. A flag returns after 2^32 launches only, and no word has it then.
#define END_SIGNALS \
    if (get_local_id(0) == 0 && atomic_inc(signals + 1) == get_num_groups(0) - 1) { \
        PUBLISH(signals + 1, 0); \
        PUBLISH(signals + 2, 0); \
        if (launch == ~0u) \
            for (uint w = 4; w < signal_words; w++) PUBLISH(signals + w, 0); \
        PUBLISH(signals, launch == ~0u ? 0 : launch); \
    }

typedef union {
    state whole;
    uint words[WORDS];
} state_words;

#define PUBLISH_STATE(index, s) { \
        state_words published_state; \
        published_state.whole = s; \
        for (uint w = 0; w < WORDS; w++) PUBLISH_FLAGGED(STATE_AT(index) + 2 * w, published_state.words[w], launch); \
    }
#define TAKE_STATE(index, s) { \
        state_words taken_state; \
        AWAIT_FLAGGED(STATE_AT(index), taken_state.words, WORDS, launch) \
        s = taken_state.whole; \
    }

// Combines the first `n` of `states`, at most `most`, into the first one. Intel's CPU compiler gets a loop with barriers wrong whose
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

// Defines `carry`, the state before `tile` of the `tiles` tiles of each row, unless it is the first one. `total` is the state of the
// tile, which is published; both are in local memory, as `states` for GROUP of them. All work-items come here after a barrier.
#define LOOK_BACK(rows, row, tiles, tile, total, states, carry) \
    const size_t before_row = (size_t)(row) * (tiles), fans = ((tiles) + FAN - 1) / FAN, first_fan = (size_t)(rows) * (tiles) + (row) * fans; \
    const uint fan = (tile) / FAN, of_fan = (tile) % FAN; \
    state carry; \
    if (of_fan) { \
        if (item < of_fan) TAKE_STATE(before_row + (tile) - of_fan + item, states[item]) \
        barrier(CLK_LOCAL_MEM_FENCE); \
        COMBINE(of_fan, FAN) \
        carry = states[0]; \
        barrier(CLK_LOCAL_MEM_FENCE); \
    } \
    if (of_fan == FAN - 1 && item == 0) { \
        state whole = total; \
        BEHIND(carry, whole) \
        PUBLISH_STATE(first_fan + fan, whole) \
    } \
    if (fan) { \
        const uint share = (fan + GROUP - 1) / GROUP, n = (fan + share - 1) / share; \
        if (item < n) { \
            state of_share; \
            TAKE_STATE(first_fan + item * share, of_share) \
            for (uint i = item * share + 1; i < min(fan, (item + 1) * share); i++) { \
                state behind; \
                TAKE_STATE(first_fan + i, behind) \
                BEHIND(of_share, behind) \
                of_share = behind; \
            } \
            states[item] = of_share; \
        } \
        barrier(CLK_LOCAL_MEM_FENCE); \
        COMBINE(n, GROUP) \
        state all_fans = states[0]; \
        if (of_fan) { \
            BEHIND(all_fans, carry) \
        } else { \
            carry = all_fans; \
        } \
    }
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
               const walk g) {
    __local REAL shared[GROUP * (STRETCH + 1)];
    __local state states[2 * GROUP], total;
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
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint k = 0; k < STRETCH; k++) {
        const uint i = item + k * GROUP;
        if (i < count) {
            STORE(shared[STAGE(i)], out, PLACE(i));
        }
    }
    END_SIGNALS
}
