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

$if NAMED
#define NAME(at, place) names[at]
$else
#define NAME(at, place) (place)
$end

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

$kernel [GROUP, 1, 1] kth_of_rows(read STORAGE x, read long positions, write long indices, row_selecting g) {
    uint need = clamp(positions[get_group_id(0)], 0L, g.extent - 1) + 1;
    SELECT(0)
    if (item == 0) indices[get_group_id(0)] = last;
}

$kernel [GROUP, 1, 1] first_of_rows(read STORAGE x, read long names if NAMED, write STORAGE values, write long indices,
        row_selecting g) {
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
