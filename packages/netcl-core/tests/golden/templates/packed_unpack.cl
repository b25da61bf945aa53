// packed_unpack/Q4_0_float32
#pragma OPENCL FP_CONTRACT OFF
#define LEVELS 0
#define OFFSET 0
#define ZERO 8
#define SIGNED 0
#define GROUPS 2
#define DTYPE_FLOAT32 1
#define VECTOR 8
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
#define REALV float8
typedef float8 __attribute__((aligned(4))) PACKED;
#define GLOAD(p) (*(__global const PACKED*)(p))
#define GSTORE(x, p) (*(__global PACKED*)(p) = (x))
#define RLOAD(p) vload8(0, (p))
#define RSTORE(x, p) vstore8((x), 0, (p))
#define VLOAD(p) GLOAD(p)
#define VSTORE(x, p) GSTORE((x), (p))
// PoCL 3 converts a half by a dozen instructions, and calls functions for vload8 and vstore8.
#if defined(POCL_DEVICE_ADDRESS_BITS) && defined(__F16C__)
#define HALF_AT(i, p) (__builtin_ia32_vcvtph2ps((short8)(((__global const short*)(p))[i], 0, 0, 0, 0, 0, 0, 0))[0])
#define EIGHT_HALVES(p) __builtin_ia32_vcvtph2ps256(*(__global const packed_short8*)(p))
#else
#define HALF_AT(i, p) vload_half(i, p)
#define EIGHT_HALVES(p) vload_half8(0, p)
#endif
typedef float8 __attribute__((aligned(4))) packed_float8;
typedef short8 __attribute__((aligned(2))) packed_short8;
typedef uchar8 __attribute__((aligned(1))) packed_uchar8;
// The numbers of a packed matrix, sixteen neighbours (a group) at a time. FIELDS declares the parts: buffers (rows, elements),
// of which a block has a fixed number of elements. codes(block, g), scale(block, g) and offset(block, g) are expressions of
// the table of formats (netcl.core.engine.packed_formats); block counts all blocks of the matrix.

#ifdef __NV_CL_C_VERSION
#define ALIGNED 16
#else
#define ALIGNED 1
#endif
typedef uchar16 __attribute__((aligned(ALIGNED))) packed_uchar16;
typedef char16 __attribute__((aligned(ALIGNED))) packed_char16;
typedef uint8 __attribute__((aligned(1))) packed_uint8;

// The expressions of codes are of four words that have sixteen bytes: byte() is a number in each byte, word() one in each word.
#define byte(number) ((uint4)((number) * 0x01010101u))
#define word(number) ((uint4)(number))
#define byte8(number) ((uint8)((number) * 0x01010101u))
#define word8(number) ((uint8)(number))
#define LANES16 (ushort16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)

// Half of 2 ** (exponent - 127): the scale E8M0 of levels that are doubled.
static inline float power(const float exponent) {
    const uint e = (uint)exponent;
    return as_float(e < 2 ? 0x200000u << e : (e - 1) << 23);
}


static inline char16 quants(__global const half* d, __global const uchar* qs, const size_t block, const int g) {
    return as_char16((as_uint4(*(__global const packed_uchar16*)(qs + block * 16 + 16 * (0))) >> word(4 * g)) & byte(15)) - (char)ZERO;
}

static inline float scale_of(__global const half* d, __global const uchar* qs, const size_t block, const int g) { return HALF_AT(block * 1 + (0), d); }


static inline float16 numbers(__global const half* d, __global const uchar* qs, const size_t block, const int g) {
    const float16 scaled = convert_float16(quants(d, qs, block, g)) * scale_of(d, qs, block, g);
    return scaled;
}
// Unpacks rows of a packed matrix: a work-item has `each` groups of sixteen. No local memory. NVIDIA's compiler splits stores
// through vectors that may be anywhere: numbers of two bytes are two stores of sixteen bytes if their address allows it.


__kernel LOOPS void packed_unpack(
    __global const half *restrict d,
    __global const uchar *restrict qs,
    __global STORAGE *restrict out,
    const long first,
    const long count,
    const long each) {
    const long begin = get_global_id(0) * each, end = min(count, begin + each);
    for (long i = begin; i < end; i++) {
        const float16 values = numbers(d, qs, (first + i) / GROUPS, (int)((first + i) % GROUPS));
        __global STORAGE* to = out + i * 16;
#if defined(__NV_CL_C_VERSION) && defined(HALVES)
        if (((size_t)to & 15) == 0) {
            HALVES(values);
            continue;
        }
#endif
        VSTORE(values.lo, to);
        VSTORE(values.hi, to + 8);
    }
}
