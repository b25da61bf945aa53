// sort_sweep/float32_10_nvidia
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define GROUP 256
#define EACH 16
#define FIRST 1
#define FINAL 0
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// The keys of a radix sort in one pass over the data for each digit of eight bits, and its memory: `work` has for each pass a counter
// of tickets, then for each row and pass the counts of the digits; `words` has for each pass, row and tile a word for each digit.

#define SIGN 0x80000000U
#define KEY_MASK 0xffffffffUL
typedef uint real_bits;
#define TELLS(key) ((key) != SIGN && (key) != KEY_MASK)
static inline ulong key_of(const REAL v) {
    const real_bits bits = as_uint(v);
    if ((bits & ~SIGN) > 0x7f800000U) return KEY_MASK;
    return bits << 1 == 0 ? SIGN : (real_bits)(bits & SIGN ? ~bits : bits | SIGN);
}
static inline REAL value_of(const ulong key) {
    const real_bits bits = (real_bits)key;
    return as_float(bits & SIGN ? bits & ~SIGN : ~bits);
}
static inline int differ(const REAL v, const REAL w) {
    const real_bits one = as_uint(v), other = as_uint(w);
    return ((one != other) & ((one | other) << 1 != 0)) | ((one & ~SIGN) > 0x7f800000U);
}
#define DIFFER(v, w) differ(v, w)

#if defined(DTYPE_FLOAT64) || defined(DTYPE_INT64)
typedef ulong key_word;
#define PASSES 8
#else
typedef uint key_word;
#define PASSES 4
#endif
#define RADIX 256
#define DIGIT(key, pass) ((uint)((key) >> 8 * (pass)) & (RADIX - 1))

typedef struct {
    long rows, extent, tiles, chunks, length, pass;
    ulong flip;
} sweep;

#define KEY_AT(x, i) ((key_word)((key_of(LOAD(x, i)) ^ g.flip) & KEY_MASK))
#define COUNTS_OF(number) (work + PASSES + (number) * PASSES * RADIX)
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
// A warp of 32 work-items on NVIDIA's GPUs from compute capability 7.0 on, in inline PTX, and words in global memory that
// work-groups publish and read while others run.

#define WARP 32
#define WARP_MEMORY
#define WARP_SYNC asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")

// The number of a work-group in the order in which they begin, which is that of their ids.
#define TAKE_TICKET(ticket, counter) const uint ticket = get_group_id(0);

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
// A pass of a stable radix sort of long rows by digits of eight bits, the least significant first, which reads and writes the data
// once (Adinets and Merrill: Onesweep. 2022, arXiv 2206.01784). Work-groups take the tiles of GROUP * EACH elements in the order in which they
// begin. Each ranks its elements by their digit, publishes the counts of its digits, and sums the counts published by
// the tiles before it, from the nearest back to one with the sum of all before (decoupled look-back: Merrill and
// Garland, 2016).
//
// A pass in which all elements of a row have the same digit leaves them where they are, except the first and the last pass: the first
// makes keys of x, the last one writes values and, unless VALUES_ONLY, positions.

#define ALL (GROUP * EACH)
#define WARPS (GROUP / WARP)
#define PLACE(k) (item / WARP * (WARP * EACH) + (k) * WARP + item % WARP)

// A published word: a sum below 2^30 and of which elements it is.
#define OF_TILE (1u << 30)
#define OF_ALL (1u << 31)
#define AHEAD 4  // words that are read at once
#define SUM_OF(word) ((word) & (OF_TILE - 1))

#define PLACES(text) text

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void digit_sweep(
    __global const STORAGE *restrict x,
    __global uint *work,
    __global uint *words,
    __global key_word *one,
    __global key_word *two,
    __global uint *one_places,
    __global uint *two_places,
    const sweep g) {
    __local key_word keys[ALL];
    PLACES(__local uint places[ALL];)
    __local uint counters[WARPS * RADIX], base[RADIX];
    WARP_MEMORY
    const uint item = get_local_id(0);
    __local uint* own_counters = counters + item / WARP * RADIX;
    __local uint* sums = (__local uint*)keys;  // before there are any
    TAKE_TICKET(ticket, work + g.pass)
    for (uint w = 0; w < WARPS; w++) counters[w * RADIX + item] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint number = ticket / (uint)g.tiles, tile = ticket - number * (uint)g.tiles;
    const long row = number * g.extent, head = (long)tile * ALL;
    __global const uint* counts = COUNTS_OF(number);
    words += (g.pass * g.rows * g.tiles + ticket) * RADIX + item;
#if FIRST
#define KEY_OF(i) KEY_AT(x + (row + head), i)
    PLACES(const uint from_places = head;)
#define PLACE_OF(i) (from_places + (i))
    __global key_word* to = one + row;
    PLACES(__global uint* to_places = one_places + row;)
#else
    const key_word first = KEY_AT(x, row);
    uint done = 1;  // passes before this one that moved elements
    for (uint pass = 1; pass < (uint)g.pass; pass++) done += counts[pass * RADIX + DIGIT(first, pass)] != (uint)g.extent;
#if !FINAL
    if (counts[g.pass * RADIX + DIGIT(first, g.pass)] == (uint)g.extent) return;
#endif
    __global const key_word* from = (done & 1 ? one : two) + row + head;
#define KEY_OF(i) from[i]
    PLACES(__global const uint* from_places = (done & 1 ? one_places : two_places) + row + head;)
#define PLACE_OF(i) from_places[i]
    __global key_word* to = (done & 1 ? two : one) + row;
    PLACES(__global uint* to_places = (done & 1 ? two_places : one_places) + row;)
#endif
    // Elements behind the row count as the largest key.
    const uint count = min((long)ALL, g.extent - head);
    key_word key[EACH];
    if (count == ALL) {
        #pragma unroll
        for (uint k = 0; k < EACH; k++) key[k] = KEY_OF(PLACE(k));
    } else {
        #pragma unroll
        for (uint k = 0; k < EACH; k++) key[k] = PLACE(k) < count ? KEY_OF(PLACE(k)) : (key_word)KEY_MASK;
    }
    uint rank[EACH];  // among the elements of the digit in the warp
    #pragma unroll
    for (uint k = 0; k < EACH; k++) {
        const uint d = DIGIT(key[k], g.pass);
        PEERS(peers, d)
        const uint lower = popcount(peers & ((1u << item % WARP) - 1)), earlier = own_counters[d];
        WARP_SYNC;
        if (lower == 0) own_counters[d] = earlier + popcount(peers);
        WARP_SYNC;
        rank[k] = earlier + lower;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint own = 0;  // of the digit `item`
    for (uint w = 0; w < WARPS; w++) own += counters[w * RADIX + item];
    const uint inside = item == RADIX - 1 ? own - (ALL - count) : own;
    uint before = 0;  // elements of the row with the digit in the tiles before, and with smaller digits
    if (tile) {
        PUBLISH(words, OF_TILE | inside);
    } else {
        const uint of_digit = counts[g.pass * RADIX + item];
        SUM_UP(sums, RADIX, item, of_digit, smaller, last)
        before = smaller - of_digit;
        PUBLISH(words, OF_ALL | (before + inside));
    }
    SUM_UP(sums, RADIX, item, own, upto, now)
    uint begin = upto - own;
    const uint start = begin;
    for (uint w = 0; w < WARPS; w++) {
        const uint of_warp = counters[w * RADIX + item];
        counters[w * RADIX + item] = begin;
        begin += of_warp;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (uint k = 0; k < EACH; k++) {
        rank[k] += own_counters[DIGIT(key[k], g.pass)];
        keys[rank[k]] = key[k];
    }
#ifndef VALUES_ONLY
    if (count == ALL) {
        #pragma unroll
        for (uint k = 0; k < EACH; k++) places[rank[k]] = PLACE_OF(PLACE(k));
    } else {
        #pragma unroll
        for (uint k = 0; k < EACH; k++)
            if (PLACE(k) < count) places[rank[k]] = PLACE_OF(PLACE(k));
    }
#endif
    if (tile) {
        for (uint left = tile; left;) {  // tiles that are not in the sum yet
            uint word[AHEAD];
            #pragma unroll
            for (uint j = 0; j < AHEAD; j++) word[j] = published(words - (tile - left + 1 + min(j, left - 1)) * RADIX);
            bool known = true;
            #pragma unroll
            for (uint j = 0; j < AHEAD; j++) {
                known = known && left && word[j];
                if (known) {
                    before += SUM_OF(word[j]);
                    left = word[j] & OF_ALL ? 0 : left - 1;
                }
            }
        }
        PUBLISH(words, OF_ALL | (before + inside));
    }
    base[item] = before - start;
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (uint k = 0; k < EACH; k++) {
        const uint i = item + k * GROUP;
        if (i < count) {
            const key_word next = keys[i];
            const uint p = base[DIGIT(next, g.pass)] + i;
#if !FINAL
            to[p] = next;
            PLACES(to_places[p] = places[i];)
#else
            const ulong told = (next ^ g.flip) & KEY_MASK;
#ifdef VALUES_ONLY
            STORE(value_of(told), values, row + p);
#else
            indices[row + p] = places[i];
            if (TELLS(told)) STORE(value_of(told), values, row + p);
            else STORE(LOAD(x, row + places[i]), values, row + p);
#endif
#endif
        }
    }
}
