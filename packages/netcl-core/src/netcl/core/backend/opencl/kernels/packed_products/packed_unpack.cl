// Unpacks rows of a packed matrix: a work-item has `each` groups of sixteen. No local memory. NVIDIA's compiler splits stores
// through vectors that may be anywhere: numbers of two bytes are two stores of sixteen bytes if their address allows it.

$if DTYPE_FLOAT16
#define HALVES(v) vstorea_half8_rte((v).lo, 0, (__global half*)to), vstorea_half8_rte((v).hi, 1, (__global half*)to)
$else
$if DTYPE_BFLOAT16
static inline ushort16 halves_of(const float16 v) {
    const uint16 u = as_uint16(v);
    return convert_ushort16(select((u + 0x7fff + (u >> 16 & 1)) >> 16, (uint16)0x7fc0, isnan(v)));
}
#define HALVES(v) const ushort16 h = halves_of(v); \
    ((__global uint4*)to)[0] = as_uint4(h.lo), ((__global uint4*)to)[1] = as_uint4(h.hi)
$end
$end

$kernel LOOPS packed_unpack(${fields}, write STORAGE out, long first, long count, long each) {
    const long begin = get_global_id(0) * each, end = min(count, begin + each);
    for (long i = begin; i < end; i++) {
        const float16 values = numbers(${names}, (first + i) / GROUPS, (int)((first + i) % GROUPS));
        __global STORAGE* to = out + i * 16;
#if defined(__NV_CL_C_VERSION) && defined(HALVES)
        if (((size_t)to & 15) == 0) {
            HALVES(values);
            continue;
        }
#endif
$if DTYPE_FLOAT64
        VSTORE(convert_double8(values.lo), to);
        VSTORE(convert_double8(UPPER(values)), to + 8);
$else
        VSTORE(values.lo, to);
        VSTORE(UPPER(values), to + 8);
$end
    }
}
