// Stable radix sort of long rows by digits of eight bits, the least significant first (LSD), for devices with work-groups. A row
// has chunks of `blocks` blocks of ALL elements. A pass has three steps: `chunk_counts` counts the digits of each chunk, a scan of
// the counts, digit by digit and chunk by chunk, gives where each chunk's elements with a digit go, and `chunk_scatter` sorts
// block after block by the digit in local memory and writes its runs of equal digits there.
//
// The first pass makes elements (sort_elements.cl) of x, the last one writes values and, unless VALUES_ONLY, positions.

typedef struct {
    long extent, chunks, length, shift;
    ulong flip;
} digits;

#define RADIX 256
$if FIRST
#define TAKEN(i) ELEMENT((key_of(LOAD(from, row + (i))) ^ g.flip) & KEY_MASK, (ulong)(i))
$else
#define TAKEN(i) from[row + (i)]
$end
#define DIGIT(e) ((uint)(KEY(e) >> g.shift) & (RADIX - 1))

// Elements from `head` to `tail` of row `number`.
#define CHUNK \
    const uint item = get_local_id(0); \
    const long number = get_group_id(0) / g.chunks, chunk = get_group_id(0) % g.chunks; \
    const long row = number * g.extent, head = chunk * g.length, tail = min(g.extent, head + g.length)

#define COUNT_OF(d) ((number * RADIX + (d)) * g.chunks + chunk)

$kernel [GROUP, 1, 1] chunk_counts(read STORAGE from if FIRST, read element from if not FIRST, write int counts, digits g) {
    __local uint found[RADIX];
    CHUNK;
    for (uint d = item; d < RADIX; d += GROUP) found[d] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (long begin = head + item; begin < tail; begin += ALL) {
        uint digit[EIGHT];
        ${unroll}
        for (uint k = 0; k < EIGHT; k++) {
            const element e = TAKEN(min(begin + k * GROUP, tail - 1));
            digit[k] = DIGIT(e);
        }
        ${unroll}
        for (uint k = 0; k < EIGHT; k++)
            if (begin + k * GROUP < tail) atomic_inc(&found[digit[k]]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint d = item; d < RADIX; d += GROUP) counts[COUNT_OF(d)] = found[d];
}

// Padded, so that accesses of EIGHT elements in a row by each work-item are to different banks.
#define STAGE(i) ((i) + (i) / EIGHT)
#define DIGIT_OF(word) ((word) >> 16)

$kernel [GROUP, 1, 1] chunk_scatter(read STORAGE from if FIRST, read element from if not FIRST, read int counts,
        read int sums_of_counts, write element to if not FINAL, read STORAGE x if FINAL and not VALUES_ONLY,
        write STORAGE values if FINAL, write long indices if FINAL and not VALUES_ONLY, digits g) {
    __local element shared[STAGE(ALL)];
    __local uint words[ALL] __attribute__((aligned(32)));  // of each element the digit, above its place in `shared`
    __local uint places_[8 * GROUP] __attribute__((aligned(32)));
    __local uint sums_[2 * GROUP];
    __local int base[RADIX];
    // PoCL 3.0: see matrix_unit_mma_twin.cl.
    __local uint* places = places_ + min((int)g.chunks, 0);
    __local uint* sums = sums_ + min((int)g.chunks, 0);
    CHUNK;
    for (uint d = item; d < RADIX; d += GROUP) base[d] = sums_of_counts[COUNT_OF(d)] - counts[COUNT_OF(d)];
    for (long begin = head; begin < tail; begin += ALL) {
        const uint count = min((long)ALL, tail - begin);
        element loaded[EIGHT];  // all under way before the first is stored
        ${unroll}
        for (uint k = 0; k < EIGHT; k++) loaded[k] = TAKEN(begin + min(item + k * GROUP, count - 1));
        ${unroll}
        for (uint k = 0; k < EIGHT; k++) {
            const uint i = item + k * GROUP;
            if (i < count) shared[STAGE(i)] = loaded[k];
            else shared[STAGE(i)] = LAST;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        uint word[EIGHT], nibble[EIGHT];
        uchar before[EIGHT];
        ${unroll}
        for (uint k = 0; k < EIGHT; k++) word[k] = DIGIT(shared[STAGE(item * EIGHT + k)]) << 16 | (item * EIGHT + k);
        for (uint shift = 16; shift < 24; shift += 4) {
            ${unroll}
            for (uint k = 0; k < EIGHT; k++) nibble[k] = word[k] >> shift & 15;
            count_digits(nibble, before, places, item);
            barrier(CLK_LOCAL_MEM_FENCE);
            add_up(places, sums, item);
            barrier(CLK_LOCAL_MEM_FENCE);
            ${unroll}
            for (uint k = 0; k < EIGHT; k++) words[PLACE_OF(places, nibble[k], item) + before[k]] = word[k];
            barrier(CLK_LOCAL_MEM_FENCE);
            const uint8 next = ((__local const uint8*)words)[item];
            TAKE_EIGHT(word, next)
        }
        // A run of equal digits, from i on, goes to base[d] + i in all, with what this subtracts.
        for (uint i = item; i < count; i += GROUP) {
            const uint d = DIGIT_OF(words[i]);
            if (i == 0 || d != DIGIT_OF(words[i - 1])) base[d] -= i;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = item; i < count; i += GROUP) {
            const uint word = words[i];
            const element one = shared[STAGE(word & 0xffff)];
            const long p = row + (base[DIGIT_OF(word)] + (int)i);
#if !FINAL
            to[p] = one;
#else
            const ulong key = (KEY(one) ^ g.flip) & KEY_MASK;
#ifdef VALUES_ONLY
            STORE(value_of(key), values, p);
#else
            indices[p] = INDEX_OF(one);
            if (TELLS(key)) STORE(value_of(key), values, p);
            else STORE(LOAD(x, row + (long)INDEX_OF(one)), values, p);
#endif
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        // The next block's elements follow.
        for (uint i = item; i < count; i += GROUP) {
            const uint d = DIGIT_OF(words[i]);
            if (i + 1 == count || d != DIGIT_OF(words[i + 1])) base[d] += i + 1;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
