// Unpacks rows of a packed matrix: a work-item has `each` blocks. No local memory.

$kernel LOOPS packed_unpack(${fields}, write STORAGE out, long first, long count, long each) {
    const long begin = get_global_id(0) * each, end = min(count, begin + each);
    for (long i = begin; i < end; i++)
        for (int g = 0; g < GROUPS; g++) {
            const float16 values = numbers(${names}, first + i, g);
            VSTORE(JOIN(convert_, REALV)(values), out + (i * GROUPS + g) * 16);
        }
}
