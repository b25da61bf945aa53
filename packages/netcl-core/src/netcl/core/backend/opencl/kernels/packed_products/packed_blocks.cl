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

// The second half of a variable of sixteen numbers, and sixteen of two halves.
#ifndef NO_SHUFFLES
#define UPPER(v) (v).hi
#define SIXTEEN(a, b) (float16)(a, b)
#else
#define UPPER(v) (((const __typeof__((v).lo)*)&(v))[1])
static inline float16 SIXTEEN(const float8 a, const float8 b) {
    float16 both;
    ((float8*)&both)[0] = a;
    ((float8*)&both)[1] = b;
    return both;
}
#endif

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

$if LEVELS
#if defined(POCL_DEVICE_ADDRESS_BITS) && defined(__SSSE3__)
#define LOOK_UP(table, codes) __builtin_ia32_pshufb128(table, as_char16(codes))
#else
#define LOOK_UP(table, codes) shuffle(table, codes)
#endif
$end

static inline uint4 codes_of(${declared}, const size_t block, const int g) { return as_uint4(${codes}); }

static inline char16 quants(${declared}, const size_t block, const int g) {
$if LEVELS
    return LOOK_UP((char16)(${levels}), as_uchar16(codes_of(${names}, block, g)));
$else
    return as_char16(codes_of(${names}, block, g)) - (char)ZERO;
$end
}

static inline float scale_of(${declared}, const size_t block, const int g) { return ${scale}; }

$if OFFSET
static inline float offset_of(${declared}, const size_t block, const int g) { return ${offset}; }
$end

static inline float16 numbers(${declared}, const size_t block, const int g) {
    const float16 scaled = convert_float16(quants(${names}, block, g)) * scale_of(${names}, block, g);
$if OFFSET
    return scaled + offset_of(${names}, block, g);
$else
    return scaled;
$end
}
