// packed_dots/Q4_0_float32
#pragma OPENCL FP_CONTRACT OFF
#define LEVELS 0
#define OFFSET 0
#define ZERO 8
#define SIGNED 0
#define GROUPS 2
#define DTYPE_FLOAT32 1
#define VECTOR 8
#define ROWS 4
#define SINGLE 0
#define WHOLE 0
#define NORM 0
#define BIAS 0
#define RESIDUAL 0
#define GATE 0
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
// Around a product of few rows: x may be normalized, and the sum of a row of the matrix gets a bias, a gate and a residual.

#define NUMBERS(row, at) VLOAD((row) + (at))
#define NORM_OF_X x

// The product of one row of x with a row of the matrix, whose numbers are scaled first: other orders have NaN where numbers of
// x are infinite, and infinities where products with unscaled quants are.
static inline float of_floats(__global const STORAGE* row, __global const STORAGE* norm, const float inverse, __global const half* d, __global const uchar* qs,
        const size_t block, const long groups) {
    float8 sum = 0;
    for (long i = 0; i < groups; i++) {
        const float16 w = numbers(d, qs, block + i / GROUPS, (int)(i % GROUPS));
        sum += w.lo * NUMBERS(row, i * 16) + w.hi * NUMBERS(row, i * 16 + 8);
    }
    const float4 four = sum.lo + sum.hi;
    return (four.x + four.y) + (four.z + four.w);
}

static inline float gated(const float x) {
    const float inner = GATE == 2 ? 1.5957691216f * (x + 0.044715f * x * x * x) : x;
    return x / (1 + exp(-inner));
}
// packed_rows.cl for CPUs: x is rounded to shorts, and products of shorts are added in pairs, for which processors have an
// instruction. 32 neighbours of x have one scale, a power of two, so that numbers of few bits keep their value. The scales of
// eight times 32 numbers are computed together.
//
// A work-item rounds ROWS rows of x for itself, and has `each` rows of the result. Local memory: the shorts of x, their scales
// and their sums. Rows of x with a number that is not finite, or of sums beyond float32, are multiplied as floats, unrounded.
// Contraction of a*b+c into one rounding is allowed here.

#pragma OPENCL FP_CONTRACT ON
#define EIGHT (int8)(0, 1, 2, 3, 4, 5, 6, 7)

typedef short16 __attribute__((aligned(2))) packed_short16;

static inline float8 power8(const float8 exponent) {
    const uint8 e = convert_uint8(exponent);
    return as_float8(select((e - 1) << 23, (uint8)(0x200000) << e, e < 2));
}

// The sums of pairs of products: one instruction. Intel's compiler makes it of this expression, PoCL's of none.
static inline int8 pairs(const short16 a, const short16 b) {
#if defined(POCL_DEVICE_ADDRESS_BITS) && defined(__AVX2__)
    return __builtin_ia32_pmaddwd256(a, b);
#else
    const int16 products = convert_int16(a) * convert_int16(b);
    return products.even + products.odd;
#endif
}

static inline float across(const float8 v) {
    const float4 four = v.lo + v.hi;
    return (four.x + four.y) + (four.z + four.w);
}

// Rounds 32 numbers.
static inline void rounded(const float8 a, const float8 b, const float8 c, const float8 d, __local short* to,
        __local float* scale, __local float* sum) {
    const float8 eight = fmax(fmax(fabs(a), fabs(b)), fmax(fabs(c), fabs(d)));
    const float4 four = fmax(eight.lo, eight.hi);
    const float largest = fmax(fmax(four.x, four.y), fmax(four.z, four.w)), total = across((a + b) + (c + d));
    const float power = as_float(as_uint(largest) & 0x7f800000u);
    const float factor = power > 0x1p-100f ? 16384 / power : 0;
    *scale = power / 16384;
    *sum = total;
    __local packed_short8* eights = (__local packed_short8*)to;
    const short8 first = convert_short8_sat_rte(a * factor), second = convert_short8_sat_rte(b * factor);
    const short8 third = convert_short8_sat_rte(c * factor), fourth = convert_short8_sat_rte(d * factor);
    eights[0] = first;
    eights[1] = second;
    eights[2] = third;
    eights[3] = fourth;
}

static inline short16 shorts_of(__global const half* d, __global const uchar* qs, const size_t block, const int g) {
    return convert_short16(quants(d, qs, block, g));
}

#define HALVES(j) const short16 low = shorts_of(d, qs, block + j, 0), high = shorts_of(d, qs, block + j, 1);

// Adds the products of the part j of eight times 32 numbers.
#define ADD(r, j) \
    if (j % 2) more[r] += convert_float8(first + last) * each_scale[r][j]; \
    else total[r] += convert_float8(first + last) * each_scale[r][j];
#define PART(j) { \
    HALVES(j) \
    for (int r = 0; r < ROWS; r++) { \
        __local const short* from = shorts + r * columns + 32 * (start + j); \
        const int8 first = pairs(low, *(__local const packed_short16*)from); \
        const int8 last = pairs(high, *(__local const packed_short16*)(from + 16)); \
        ADD(r, j) \
    } \
}

__kernel LOOPS void packed_dots(
    __global const STORAGE *restrict x,
    __global const half *restrict d,
    __global const uchar *restrict qs,
    __global STORAGE *restrict out,
    __local short *shorts,
    __local float *factors,
    __local float *sums,
    const long height,
    const long rows,
    const long blocks,
    const long each,
    const float eps) {
    const long tile = get_global_id(0) * ROWS, begin = get_global_id(1) * each, end = min(rows, begin + each);
    const long columns = blocks * GROUPS * 16, parts = columns / 32, eights = (parts + 7) / 8;
    float inverses[ROWS];
    bool is_finite[ROWS];
    for (long r = 0; r < ROWS; r++) {
        __global const STORAGE* row = x + min(tile + r, height - 1) * columns;
        float inverse = 1, check = 0;
        for (long i = 0; i < eights * 8; i++) {
            const long to = r * eights * 8 + i, at = i * 32;
            factors[to] = 0;
            sums[to] = 0;
            if (i < parts) {
                rounded(NUMBERS(row, at), NUMBERS(row, at + 8), NUMBERS(row, at + 16), NUMBERS(row, at + 24),
                    shorts + r * columns + at, factors + to, sums + to);
            }
            check += 0 * sums[to];
        }
        inverses[r] = inverse;
        is_finite[r] = check == 0;
    }
    for (long n = begin; n < end; n++) {
        float kept[ROWS];
        for (int h = 0; h < (GATE ? 2 : 1); h++) {
            const long own = n + h * rows;
            float8 total[ROWS], more[ROWS];
            for (int r = 0; r < ROWS; r++) {
                total[r] = 0;
                more[r] = 0;
            }
            for (long i = 0; i < eights; i++) {
                // The last eight overlap those before.
                const long start = max(0L, min(8 * i, parts - 8)), block = own * blocks + start;
                const int skipped = (int)(8 * i - start), count = (int)min(8L, parts - start);
                float8 scale, second = 0, offset = 0;
                if (count == 8) {
                    scale = EIGHT_HALVES(d + block);
                } else {
                    float s[8] = {0}, o[8] = {0};
                    for (int j = 0; j < count; j++) {
                        s[j] = scale_of(d, qs, block + j, 0);
                    }
                    scale = *(packed_float8*)s;
                    offset = *(packed_float8*)o;
                }
                float each_scale[ROWS][8], each_second[ROWS][8];
                for (int r = 0; r < ROWS; r++) {
                    const float8 factor = *(__local packed_float8*)(factors + r * eights * 8 + start);
                    *(packed_float8*)each_scale[r] = scale * factor;
                }
                if (count - skipped == 8) {
                    PART(0) PART(1) PART(2) PART(3) PART(4) PART(5) PART(6) PART(7)
                } else {
                    for (int j = skipped; j < count; j++) PART(j)
                }
            }
            for (int r = 0; r < ROWS && tile + r < height; r++) {
                float value = across(total[r] + more[r]);
                if (!is_finite[r])
                    value = of_floats(x + (tile + r) * columns, NORM_OF_X, inverses[r], d, qs, own * blocks, blocks * GROUPS);
                if (GATE && h == 0) {
                    kept[r] = gated(value);
                    continue;
                }
                if (GATE) value *= kept[r];
                STORE(value, out, (tile + r) * rows + n);
            }
        }
    }
}
