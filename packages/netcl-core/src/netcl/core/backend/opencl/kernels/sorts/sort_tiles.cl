// A pass of a stable radix sort of long rows by digits of eight bits, the least significant first. A tile of GROUP * EACH elements is
// ordered by the digit in local memory, and its runs of equal digits are written behind the elements before them.
//
// Where a run goes comes in one of two ways. A work-group of a chunk carries it from tile to tile, from the scanned counts of all
// chunks on (digit_counts). With SWEPT tiles, on devices with operations of a warp, a pass reads and writes the data once (Adinets and
// Merrill: Onesweep. 2022, arXiv 2206.01784): work-groups take the tiles in the order in which they begin, publish the counts of their
// digits, and sum the counts published by the tiles before them, from the nearest back to one with the sum of all before
// (decoupled look-back: Merrill and Garland, 2016). A pass in which all elements of a row have the same digit then leaves them
// where they are, except the first and the last pass.
//
// The first pass makes keys of x, the last one writes values and, unless VALUES_ONLY, positions.

$if SWEPT
#define ALL (GROUP * EACH)
#define WARPS (GROUP / WARP)
#define PLACE(k) (item / WARP * (WARP * EACH) + (k) * WARP + item % WARP)
#define STAGE(i) (i)
#define ORDERED(i) (i)

// A published word: a sum below 2^30 and the elements that it sums.
#define OF_TILE (1u << 30)
#define OF_ALL (1u << 31)
#define AHEAD 4  // words that are read at once
#define SUM_OF(word) ((word) & (OF_TILE - 1))
$else
#define PLACE(k) (item + (k) * GROUP)
// Padded, so that accesses of EIGHT elements in a row by each work-item are to different banks.
#define STAGE(i) ((i) + (i) / EIGHT)
#define ORDERED(i) (order[i] & 0xffff)
#define DIGIT_OF(word) ((word) >> 16)
$end

$if VALUES_ONLY
#define PLACES(text)
$else
#define PLACES(text) text
$end

$kernel [GROUP, 1, 1] sort_tiles(read STORAGE x, write uint* work if SWEPT, write uint* words if SWEPT,
        read int counts if not SWEPT, read int sums_of_counts if not SWEPT, write key_word* one, write key_word* two,
        write uint* one_places if not VALUES_ONLY, write uint* two_places if not VALUES_ONLY,
        write STORAGE values if FINAL, write long indices if FINAL and not VALUES_ONLY, sorting g) {
    __local key_word keys[STAGE(ALL)];
    PLACES(__local uint places[ALL];)
    __local uint base[RADIX];
    const uint item = get_local_id(0);
    $if SWEPT
    __local uint counters[WARPS * RADIX];
    WARP_MEMORY
    __local uint* own_counters = counters + item / WARP * RADIX;
    __local uint* sums = (__local uint*)keys;  // before there are any
    TAKE_TICKET(ticket, work + g.pass)
    for (uint w = 0; w < WARPS; w++) counters[w * RADIX + item] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint number = ticket / (uint)g.tiles, tile = ticket - number * (uint)g.tiles;
    const long row = number * g.extent, head = (long)tile * ALL, tail = g.extent;
    __global const uint* counts = COUNTS_OF(number);
    words += (g.pass * g.rows * g.tiles + ticket) * RADIX + item;
    $else
    __local uint order[ALL] __attribute__((aligned(32)));  // of each element the digit, above its place in `keys`
    __local uint counters_[8 * GROUP] __attribute__((aligned(32)));
    __local uint sums_[2 * GROUP];
    // PoCL 3.0: see matrix_unit_mma_twin.cl.
    __local uint* counters = counters_ + min((int)g.chunks, 0);
    __local uint* sums = sums_ + min((int)g.chunks, 0);
    const long number = get_group_id(0) / g.chunks, chunk = get_group_id(0) % g.chunks;
    const long row = number * g.extent, begin = chunk * g.length, tail = min(g.extent, begin + g.length);
    for (uint d = item; d < RADIX; d += GROUP)
        base[d] = sums_of_counts[COUNT_OF(number, chunk, d)] - counts[COUNT_OF(number, chunk, d)];
    for (long head = begin; head < tail; head += ALL) {
    $end
    $if FIRST
#define KEY_OF(i) KEY_AT(x + (row + head), i)
    PLACES(const uint from_places = head;)
#define PLACE_OF(i) (from_places + (i))
    __global key_word* to = one + row;
    PLACES(__global uint* to_places = one_places + row;)
    $else
    $if SWEPT
    const key_word first = KEY_AT(x, row);
    uint done = 1;  // passes before this one that moved elements
    for (uint pass = 1; pass < (uint)g.pass; pass++) done += counts[pass * RADIX + DIGIT(first, pass)] != (uint)g.extent;
#if !FINAL
    if (counts[g.pass * RADIX + DIGIT(first, g.pass)] == (uint)g.extent) return;
#endif
    $else
    const uint done = g.pass;
    $end
    __global const key_word* from = (done & 1 ? one : two) + row + head;
#define KEY_OF(i) from[i]
    PLACES(__global const uint* from_places = (done & 1 ? one_places : two_places) + row + head;)
#define PLACE_OF(i) from_places[i]
    __global key_word* to = (done & 1 ? two : one) + row;
    PLACES(__global uint* to_places = (done & 1 ? two_places : one_places) + row;)
    $end
    // Elements behind the row count as the largest key.
    const uint count = min((long)ALL, tail - head);
    key_word key[EACH];
    if (count == ALL) {
        ${unroll}
        for (uint k = 0; k < EACH; k++) key[k] = KEY_OF(PLACE(k));
    } else {
        ${unroll}
        for (uint k = 0; k < EACH; k++) key[k] = PLACE(k) < count ? KEY_OF(PLACE(k)) : (key_word)KEY_MASK;
    }
    $if SWEPT
    uint rank[EACH];  // among the elements of the digit in the warp
    ${unroll}
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
    ${unroll}
    for (uint k = 0; k < EACH; k++) {
        rank[k] += own_counters[DIGIT(key[k], g.pass)];
        keys[rank[k]] = key[k];
    }
$if not VALUES_ONLY
    if (count == ALL) {
        ${unroll}
        for (uint k = 0; k < EACH; k++) places[rank[k]] = PLACE_OF(PLACE(k));
    } else {
        ${unroll}
        for (uint k = 0; k < EACH; k++)
            if (PLACE(k) < count) places[rank[k]] = PLACE_OF(PLACE(k));
    }
$end
    if (tile) {
        for (uint left = tile; left;) {  // tiles that are not in the sum yet
            uint word[AHEAD];
            ${unroll}
            for (uint j = 0; j < AHEAD; j++) word[j] = published(words - (tile - left + 1 + min(j, left - 1)) * RADIX);
            bool known = true;
            ${unroll}
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
    $else
    ${unroll}
    for (uint k = 0; k < EACH; k++) keys[STAGE(PLACE(k))] = key[k];
    PLACES(for (uint i = item; i < count; i += GROUP) places[i] = PLACE_OF(i);)
    barrier(CLK_LOCAL_MEM_FENCE);
    uint word[EIGHT];
    ${unroll}
    for (uint k = 0; k < EIGHT; k++) word[k] = DIGIT(keys[STAGE(item * EIGHT + k)], g.pass) << 16 | (item * EIGHT + k);
    for (uint shift = 16; shift < 24; shift += 4) {
        RANK_DIGITS(word, shift, counters, sums)
        ${unroll}
        for (uint k = 0; k < EIGHT; k++) order[RANK(counters, k)] = word[k];
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint8 next = ((__local const uint8*)order)[item];
        TAKE_EIGHT(word, next)
    }
    // A run of equal digits, from i on, goes to base[d] + i in all, with what this subtracts.
    for (uint i = item; i < count; i += GROUP) {
        const uint d = DIGIT_OF(order[i]);
        if (i == 0 || d != DIGIT_OF(order[i - 1])) base[d] -= i;
    }
    $end
    barrier(CLK_LOCAL_MEM_FENCE);
    ${unroll}
    for (uint k = 0; k < EACH; k++) {
        const uint i = item + k * GROUP;
        if (i < count) {
            const key_word next = keys[STAGE(ORDERED(i))];
            const uint p = base[DIGIT(next, g.pass)] + i;
#if !FINAL
            to[p] = next;
            PLACES(to_places[p] = places[ORDERED(i)];)
#else
            const ulong told = (next ^ g.flip) & KEY_MASK;
$if VALUES_ONLY
            STORE(value_of(told), values, row + p);
$else
            const uint place = places[ORDERED(i)];
            indices[row + p] = place;
            if (TELLS(told)) STORE(value_of(told), values, row + p);
            else STORE(LOAD(x, row + place), values, row + p);
$end
#endif
        }
    }
    $if not SWEPT
    barrier(CLK_LOCAL_MEM_FENCE);
    // The next tile's elements follow.
    for (uint i = item; i < count; i += GROUP) {
        const uint d = DIGIT_OF(order[i]);
        if (i + 1 == count || d != DIGIT_OF(order[i + 1])) base[d] += i + 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    }
    $end
}
