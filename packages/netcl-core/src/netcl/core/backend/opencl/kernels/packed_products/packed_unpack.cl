// Unpacks rows of a packed matrix: a work-item has `each` groups of sixteen. No local memory.

$kernel LOOPS packed_unpack(${fields}, write STORAGE out, long first, long count, long each) {
    const long begin = get_global_id(0) * each, end = min(count, begin + each);
    for (long i = begin; i < end; i++) {
        const float16 values = numbers(${names}, (first + i) / GROUPS, (int)((first + i) % GROUPS));
        __global STORAGE* to = out + i * 16;
$if DTYPE_FLOAT64
        VSTORE(convert_double8(values.lo), to);
        VSTORE(convert_double8(values.hi), to + 8);
$else
        VSTORE(values.lo, to);
        VSTORE(values.hi, to + 8);
$end
    }
}
