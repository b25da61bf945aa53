// select_rows/float32
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define GROUP 256
#define EACH 8
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// The tile algorithm of radix select, the most significant digit first: COUNT counts a digit of the keys of a tile, elements first ..
// last - 1 of a row, that are TAKEN. What was counted goes on in one of two ways. A work-group that has a whole row chooses the next
// digit in local memory (select_rows.cl); the tables of a row's many tiles are added up by launches (select.cl).

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

#define DIGITS 256  // of eight bits
#define KEY_AT(i) ((key_of(LOAD(x, row + (i))) ^ g.flip) & KEY_MASK)
#define BEGINS_WITH(number, prefix, shift) (((number) ^ (prefix)) >> (shift) >> 8 == 0)  // in two steps, as a shift by 64 is none

#define COUNT(table, size, first, last, TAKEN, DIGIT) { \
        for (uint d = item; d < (size); d += GROUP) table[d] = 0; \
        barrier(CLK_LOCAL_MEM_FENCE); \
        for (POSITION begin = (first) + item; begin < (last); begin += EACH * GROUP) { \
            ulong keys[EACH];  /* all read before the first is counted */ \
            for (uint k = 0; k < EACH; k++) keys[k] = KEY_AT(min(begin + k * GROUP, (last) - 1)); \
            for (uint k = 0; k < EACH; k++) { \
                const ulong key = keys[k]; \
                const POSITION i = begin + k * GROUP; \
                if (i < (last) && (TAKEN)) atomic_inc(&table[(DIGIT) & (DIGITS - 1)]); \
            } \
        } \
        barrier(CLK_LOCAL_MEM_FENCE); \
    }
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
// Radix select, most significant digit first, of rows by a work-group each: the first `wanted` elements of a row in the order of
// keys, sorted (`first_of_rows`), or the position of the one at a given place of that order (`kth_of_rows`).
//
// Of equal keys the first positions are wanted: where not all of them are, the digits of positions are selected like the keys' digits.
// A long row may be cut in `chunks`; each gives its first elements, and their positions in the row. With NAMED elements
// their names are given in place of positions.
// The chosen are collected in any order, as a place is the number of chosen elements before it.

typedef struct {
    long extent, chunks, wanted;
    ulong flip;
} row_selecting;

#define NAME(at, place) (place)

#define POSITION uint

// From the counts of digits, GROUP or fewer, the digit within which the place `need` is reached: `need` becomes the place among its
// `equal` elements.
#define CHOOSE { \
        const uint own = found[item]; \
        SUM_UP(found, GROUP, item, own, all, now) \
        if (all - own < need && need <= all) chosen_digit[0] = item, chosen_digit[1] = own, chosen_digit[2] = all - own; \
        barrier(CLK_LOCAL_MEM_FENCE); \
        equal = chosen_digit[1]; \
        need -= chosen_digit[2]; \
    }

// Selects `last_key`, and the position `last` of the last of its equals that is wanted.
#define SELECT(ALL_EQUALS_DO) \
    __local uint found[2 * GROUP], chosen_digit[3]; \
    const uint item = get_local_id(0), chunk = get_group_id(0) % g.chunks, start = chunk * g.extent / g.chunks; \
    const uint extent = (chunk + 1) * g.extent / g.chunks - start; \
    const long row = get_group_id(0) / g.chunks * g.extent + start; \
    ulong last_key = 0; \
    uint last = 0, equal = 0; \
    int shift = KEY_MASK > 0xffffffffUL ? 56 : 24; \
    for (; shift >= 0; shift -= 8) { \
        COUNT(found, GROUP, 0, extent, BEGINS_WITH(key, last_key, shift), key >> shift) \
        CHOOSE \
        last_key |= (ulong)chosen_digit[0] << shift; \
        if (ALL_EQUALS_DO && equal == need) break; \
    } \
    if (ALL_EQUALS_DO && equal == need) { \
        if (shift > 0) last_key |= (1UL << shift) - 1; \
        last = extent; \
    } else \
        for (shift = 24; shift >= 0; shift -= 8) \
            if ((extent - 1) >> shift) { \
                COUNT(found, GROUP, 0, extent, key == last_key && BEGINS_WITH(i, last, shift), i >> shift) \
                CHOOSE \
                last |= chosen_digit[0] << shift; \
            }

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void kth_of_rows(
    __global const STORAGE *restrict x,
    __global const long *restrict positions,
    __global long *restrict indices,
    const row_selecting g) {
    uint need = clamp(positions[get_group_id(0)], 0L, g.extent - 1) + 1;
    SELECT(0)
    if (item == 0) indices[get_group_id(0)] = last;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void first_of_rows(
    __global const STORAGE *restrict x,
    __global STORAGE *restrict values,
    __global long *restrict indices,
    const row_selecting g) {
    __local ulong keys[DIGITS];
    __local uint places[DIGITS], taken;
    uint need = g.wanted;
    SELECT(1)
    if (item == 0) taken = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = item; i < extent; i += GROUP) {
        const ulong key = KEY_AT(i);
        if (key < last_key || (key == last_key && i <= last)) {
            const uint at = atomic_inc(&taken);
            keys[at] = key;
            places[at] = i;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item >= (uint)g.wanted) return;
    const ulong key = keys[item];
    const uint place = places[item];
    uint before = 0;
    for (uint j = 0; j < (uint)g.wanted; j++) before += keys[j] < key || (keys[j] == key && places[j] < place);
    const long to = get_group_id(0) * g.wanted + before;
    STORE(LOAD(x, row + place), values, to);
    indices[to] = NAME(row + place, start + place);
}
