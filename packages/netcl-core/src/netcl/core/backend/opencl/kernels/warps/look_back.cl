// The state before a tile in one pass over the data (decoupled look-back: Merrill and Garland, Single-pass parallel prefix scan with
// decoupled look-back, 2016). Work-groups take the tiles of a row in the order in which they begin, and publish the states of their
// tiles; the last tile of FAN publishes the state of all FAN. The state before a tile combines the states of whole FANs
// and of the tiles after them, in a fixed order, so that the bits of a result do not depend on how fast tiles are.
//
// `signals` are words that the engine keeps: the number of the last launch, how many work-groups of this one have ended, a counter of
// tickets and an unused word, then for each tile and each FAN the words of a state. A published state has the number of
// the launch as its flag, so that states of earlier launches need not be cleared. The text before this defines `state`,
// GROUP, FAN and BEHIND(before, s), which puts the state `before` before the state `s`.

#define WORDS ((sizeof(state) + 3) / 4)
#define STATE_AT(index) (signals + 4 + (index) * 2 * WORDS)
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

// Sets `carry` to the state before `tile` of the `tiles` tiles of each row, unless it is the first one. `total` is the state of the
// tile, which is published; both are in local memory, as `states` for GROUP of them. All work-items come here after a barrier.
#define LOOK_BACK(rows, row, tiles, tile, total, states, carry) \
    const size_t before_row = (size_t)(row) * (tiles), fans = ((tiles) + FAN - 1) / FAN, first_fan = (size_t)(rows) * (tiles) + (row) * fans; \
    const uint fan = (tile) / FAN, of_fan = (tile) % FAN; \
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
        COMBINE_SHARES(TAKE_STATE, first_fan, fan, states) \
        state all_fans = states[0]; \
        if (of_fan) { \
            BEHIND(all_fans, carry) \
        } else { \
            carry = all_fans; \
        } \
    }
