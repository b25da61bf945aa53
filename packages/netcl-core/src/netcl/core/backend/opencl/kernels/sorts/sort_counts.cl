// Counts the digits of all passes in one pass over the data, and sets the words of all tiles to zero; without SWEPT tiles the digits
// of one pass, in each chunk.
$if SWEPT
#define COUNTED PASSES
#define SHIFTED(pass) pass
$else
#define COUNTED 1
#define SHIFTED(pass) g.pass
$end
$if FIRST
#define KEY_OF(i) KEY_AT(x, row + (i))
$else
#define KEY_OF(i) from[row + (i)]
$end

$kernel [GROUP, 1, 1] digit_counts(read STORAGE x if FIRST, read key_word from if not FIRST, write uint* work if SWEPT,
        write uint* words if SWEPT, write int counts if not SWEPT, sorting g) {
    __local uint found[COUNTED * RADIX];
    const uint item = get_local_id(0);
    const long number = get_group_id(0) / g.chunks, chunk = get_group_id(0) % g.chunks, row = number * g.extent;
    const long head = chunk * g.length, tail = min(g.extent, head + g.length);
    for (uint d = item; d < COUNTED * RADIX; d += GROUP) found[d] = 0;
    $if SWEPT
    const long all = g.rows * g.tiles * PASSES * RADIX;
    for (long i = get_global_id(0); i < all; i += get_global_size(0)) words[i] = 0;
    $end
    barrier(CLK_LOCAL_MEM_FENCE);
    for (long begin = head + item; begin < tail; begin += GROUP * EACH) {
        key_word key[EACH];
        ${unroll}
        for (uint k = 0; k < EACH; k++) key[k] = KEY_OF(min(begin + k * GROUP, tail - 1));
        ${unroll}
        for (uint k = 0; k < EACH; k++)
            if (begin + k * GROUP < tail)
                for (uint pass = 0; pass < COUNTED; pass++) atomic_inc(&found[pass * RADIX + DIGIT(key[k], SHIFTED(pass))]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    $if SWEPT
    for (uint d = item; d < PASSES * RADIX; d += GROUP)
        if (found[d]) atomic_add(COUNTS_OF(number) + d, found[d]);
    $else
    for (uint d = item; d < RADIX; d += GROUP) counts[COUNT_OF(number, chunk, d)] = found[d];
    $end
}
