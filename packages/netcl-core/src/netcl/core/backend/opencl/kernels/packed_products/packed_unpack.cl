// Unpacks rows of a packed matrix: a work-item has `each` groups of sixteen. No local memory.

// Buffers begin at multiples of these sizes, which NVIDIA's compiler has to know for stores of several numbers.
$if DTYPE_FLOAT32
#define STORE16(v, p) (*(__global float16*)(p) = (v))
$end
$if DTYPE_FLOAT16
#define STORE16(v, p) vstorea_half16_rte(v, 0, (__global half*)(p))
$end
$if DTYPE_BFLOAT16
#define STORE16(v, p) (*(__global ushort16*)(p) = convert_ushort16((as_uint16(v) + 0x7fff + (as_uint16(v) >> 16 & 1)) >> 16))
$end

$kernel LOOPS packed_unpack(${fields}, write STORAGE out, long first, long count, long each) {
    const long begin = get_global_id(0) * each, end = min(count, begin + each);
    for (long i = begin; i < end; i++) {
        const float16 values = numbers(${names}, (first + i) / GROUPS, (int)((first + i) % GROUPS));
        __global STORAGE* to = out + i * 16;
$if DTYPE_FLOAT64
        VSTORE(convert_double8(values.lo), to);
        VSTORE(convert_double8(values.hi), to + 8);
$else
#ifdef __NV_CL_C_VERSION
        STORE16(values, to);
#else
        VSTORE(values.lo, to);
        VSTORE(values.hi, to + 8);
#endif
$end
    }
}
