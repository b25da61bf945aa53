// compaction_sweep/true_nvidia
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_UINT8 1
#define GROUP 256
#define EACH 32
#define FAN 64
#define state uint
#define STARTS 0
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE uchar
#define REAL uchar
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// The positions of the true elements of a mask, for compaction.cl.
#define SOURCE __global const uchar* restrict mask
#define HOLDS(i) (mask[i] != 0)
#define TARGET __global long* restrict out
#define LIST(i, at) out[at] = (i);

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
// Stream compaction in one pass over the data, for warps (kernels/warps): lists the elements for which HOLDS(i) is true, which the text
// before this defines, in order, and writes how many there are. A warp finds those of WARP * EACH elements by ballots, and lists them
// after those of the warps before it and of the tiles before; the state of a tile is the number of its elements (look_back.cl).

#define WARPS (GROUP / WARP)
#define OF_WARP (WARP * EACH)
#define BEHIND(before, s) s += before;

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void list_sweep(SOURCE, SIGNALS, TARGET, __global long* restrict count, const long size) {
    __local ushort places[GROUP * EACH];  // of the elements listed among those of the warp
    __local uint counts[WARPS];
    __local state states[GROUP], total;
    WARP_MEMORY
    const uint item = get_local_id(0), warp = item / WARP, lane = item % WARP;
    BEGIN_SIGNALS(ticket)
    const long begin = (long)ticket * (GROUP * EACH) + warp * OF_WARP + lane;
    uchar held[EACH];
    // Without a branch for each element, so that all loads are under way.
#pragma unroll
    for (uint k = 0; k < EACH; k++) held[k] = HOLDS(min(begin + k * WARP, size - 1)) & (begin + k * WARP < size);
    __local ushort* own_places = places + warp * OF_WARP;
    uint listed = 0;
#pragma unroll
    for (uint k = 0; k < EACH; k++) {
        BALLOT(lanes, held[k])
        if (held[k]) own_places[listed + popcount(lanes & ((1u << lane) - 1))] = k * WARP + lane;
        listed += popcount(lanes);
    }
    if (lane == 0) counts[warp] = listed;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint earlier = 0, of_tile = 0;
    for (uint w = 0; w < WARPS; w++) {
        earlier += w < warp ? counts[w] : 0;
        of_tile += counts[w];
    }
    if (item == 0) {
        PUBLISH_STATE(ticket, of_tile)
        total = of_tile;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint tiles = get_num_groups(0);
    LOOK_BACK(1, 0, tiles, ticket, total, states, carry)
    const long before = ticket ? carry : 0, at = before + earlier;
    for (uint i = lane; i < listed; i += WARP) {
        LIST(begin - lane + own_places[i], at + i)
    }
    if (ticket == tiles - 1 && item == 0) *count = before + of_tile;
    END_SIGNALS
}
