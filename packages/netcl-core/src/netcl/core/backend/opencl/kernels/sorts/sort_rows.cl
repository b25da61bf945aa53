// Stable sort of short rows of keys of 32 bits (see sort_keys.py): a work-group of GROUP work-items sorts a row of at most
// GROUP * EIGHT elements in local memory by their digits of four bits, the least significant first (LSD radix sort).

${keys}

typedef struct {
    long rows, extent, kept;
    ulong flip;
} row_sorting;

$kernel [GROUP, 1, 1] sort_rows(read STORAGE x, write STORAGE values, write long indices, row_sorting g) {
    __local uint keys[ALL] __attribute__((aligned(32)));
    __local ushort places[ALL] __attribute__((aligned(16)));
    __local uint counts_[8 * GROUP] __attribute__((aligned(32)));
    __local uint sums_[2 * GROUP];
    // PoCL 3.0: see matrix_unit_mma_twin.cl.
    __local uint* counts = counts_ + min((int)g.extent, 0);
    __local uint* sums = sums_ + min((int)g.extent, 0);
    const uint item = get_local_id(0), extent = g.extent;
    const long row = get_group_id(0) * g.extent;
    for (uint i = item; i < ALL; i += GROUP) keys[i] = i < extent ? (uint)((key_of(LOAD(x, row + i)) ^ g.flip) & KEY_MASK) : 0xffffffffU;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint key[EIGHT];
    ushort place[EIGHT];
    ${unroll}
    for (uint k = 0; k < EIGHT; k++) place[k] = item * EIGHT + k;
    const uint8 first_keys = ((__local const uint8*)keys)[item];
    TAKE_EIGHT(key, first_keys)
    for (uint shift = 0; shift < 32; shift += 4) {
        RANK_DIGITS(key, shift, counts, sums)
        ${unroll}
        for (uint k = 0; k < EIGHT; k++) {
            const uint to = RANK(counts, k);
            keys[to] = key[k];
            places[to] = place[k];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint8 next_keys = ((__local const uint8*)keys)[item];
        const ushort8 next_places = ((__local const ushort8*)places)[item];
        TAKE_EIGHT(key, next_keys)
        TAKE_EIGHT(place, next_places)
    }
    const long first = get_group_id(0) * g.kept;
    for (uint i = item; i < (uint)g.kept; i += GROUP) {
        const uint from = places[i];
        const ulong key = (keys[i] ^ g.flip) & KEY_MASK;
        indices[first + i] = from;
        if (TELLS(key)) STORE(value_of(key), values, first + i);
        else STORE(LOAD(x, row + from), values, first + i);
    }
}
