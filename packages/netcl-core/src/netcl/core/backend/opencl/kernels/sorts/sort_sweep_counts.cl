// Counts the digits of all passes in one pass over the data, and sets the words of all tiles to zero.
$kernel [GROUP, 1, 1] digit_counts(read STORAGE x, write uint* work, write uint* words, sweep g) {
    __local uint found[PASSES * RADIX];
    const uint item = get_local_id(0);
    const long number = get_group_id(0) / g.chunks, row = number * g.extent;
    const long head = get_group_id(0) % g.chunks * g.length, tail = min(g.extent, head + g.length);
    for (uint d = item; d < PASSES * RADIX; d += GROUP) found[d] = 0;
    const long all = g.rows * g.tiles * PASSES * RADIX;
    for (long i = get_global_id(0); i < all; i += get_global_size(0)) words[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (long begin = head + item; begin < tail; begin += GROUP * EACH) {
        key_word key[EACH];
        ${unroll}
        for (uint k = 0; k < EACH; k++) key[k] = KEY_AT(x, row + min(begin + k * GROUP, tail - 1));
        ${unroll}
        for (uint k = 0; k < EACH; k++)
            if (begin + k * GROUP < tail)
                for (uint pass = 0; pass < PASSES; pass++) atomic_inc(&found[pass * RADIX + DIGIT(key[k], pass)]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint d = item; d < PASSES * RADIX; d += GROUP)
        if (found[d]) atomic_add(COUNTS_OF(number) + d, found[d]);
}
