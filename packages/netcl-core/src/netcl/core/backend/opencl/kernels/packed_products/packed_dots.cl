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
#elif defined(NO_SHUFFLES)
    int8 sums;
    for (int i = 0; i < 8; i++) sums[i] = a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
    return sums;
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
$if WHOLE
    eights[0] = (short8)(first.even, second.even);
    eights[1] = (short8)(third.even, fourth.even);
    eights[2] = (short8)(first.odd, second.odd);
    eights[3] = (short8)(third.odd, fourth.odd);
$else
    eights[0] = first;
    eights[1] = second;
    eights[2] = third;
    eights[3] = fourth;
$end
}

$if WHOLE
// The 32 numbers j of a block, as bytes. Words of two bytes have one even and one odd number, and so has x.
static inline ushort16 pairs_of(${declared}, const size_t block, const int g) { return as_ushort16(${wide}); }

#define HALVES(j) \
    const ushort16 both = pairs_of(${names}, block, 2 * (j)); \
    const short16 low = as_short16(both & (ushort16)255) - (short16)ZERO, high = as_short16(both >> (ushort16)8) - (short16)ZERO;
$else
static inline short16 shorts_of(${declared}, const size_t block, const int g) {
    return convert_short16(quants(${names}, block, g));
}

#define HALVES(j) const short16 low = shorts_of(${names}, block + j, 0), high = shorts_of(${names}, block + j, 1);
$end

// Adds the products of the part j of eight times 32 numbers.
$if SINGLE
#define ADD(r, j) \
    const float8 scales_of_both = (float8)((float4)each_scale[r][j], (float4)each_second[r][j]); \
    if (j % 2) more[r] += convert_float8(first + last) * scales_of_both; \
    else total[r] += convert_float8(first + last) * scales_of_both;
$else
#define ADD(r, j) \
    if (j % 2) more[r] += convert_float8(first + last) * each_scale[r][j]; \
    else total[r] += convert_float8(first + last) * each_scale[r][j];
$end
#define PART(j) { \
    HALVES(j) \
    for (int r = 0; r < ROWS; r++) { \
        __local const short* from = shorts + r * columns + 32 * (start + j); \
        const int8 first = pairs(low, *(__local const packed_short16*)from); \
        const int8 last = pairs(high, *(__local const packed_short16*)(from + 16)); \
        ADD(r, j) \
    } \
}

$kernel LOOPS packed_dots(read STORAGE x, ${fields}, read STORAGE norm if NORM, read STORAGE bias if BIAS,
        read STORAGE residual if RESIDUAL, write STORAGE out, local short shorts, local float factors,
        local float sums, long height, long rows, long blocks, long each, float eps) {
    const long tile = get_global_id(0) * ROWS, begin = get_global_id(1) * each, end = min(rows, begin + each);
    const long columns = blocks * GROUPS * 16, parts = columns / 32, eights = (parts + 7) / 8;
    float inverses[ROWS];
    bool is_finite[ROWS];
    for (long r = 0; r < ROWS; r++) {
        __global const STORAGE* row = x + min(tile + r, height - 1) * columns;
        float inverse = 1, check = 0;
$if NORM
        float8 squares = 0;
        for (long i = 0; i < columns; i += 8) squares += VLOAD(row + i) * VLOAD(row + i);
        inverse = rsqrt(across(squares) / columns + eps);
$end
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
$if WHOLE
                const long start = 8 * i, block = own * blocks + i;
                const int skipped = 0, count = 8;
$else
                // The last eight overlap those before.
                const long start = max(0L, min(8 * i, parts - 8)), block = own * blocks + start;
                const int skipped = (int)(8 * i - start), count = (int)min(8L, parts - start);
$end
                float8 scale, second = 0, offset = 0;
                if (count == 8) {
                    scale = ${scale8};
$if SINGLE
                    second = ${second8};
$end
$if OFFSET
                    offset = ${offset8};
$end
                } else {
                    float s[8] = {0}, o[8] = {0};
                    for (int j = 0; j < count; j++) {
                        s[j] = scale_of(${names}, block + j, 0);
$if OFFSET
                        o[j] = offset_of(${names}, block + j, 0);
$end
                    }
                    scale = *(packed_float8*)s;
                    offset = *(packed_float8*)o;
                }
                float each_scale[ROWS][8], each_second[ROWS][8];
                for (int r = 0; r < ROWS; r++) {
                    const float8 factor = *(__local packed_float8*)(factors + r * eights * 8 + start);
                    *(packed_float8*)each_scale[r] = scale * factor;
$if SINGLE
                    *(packed_float8*)each_second[r] = second * factor;
$end
$if OFFSET
                    float8 sum = *(__local packed_float8*)(sums + r * eights * 8 + start);
                    if (skipped) sum = select((float8)0, sum, EIGHT >= skipped);
                    more[r] += offset * sum;
$end
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
                    value = of_floats(x + (tile + r) * columns, NORM_OF_X, inverses[r], ${names}, own * blocks, blocks * GROUPS);
$if BIAS
                value += LOAD(bias, own);
$end
                if (GATE && h == 0) {
                    kept[r] = gated(value);
                    continue;
                }
                if (GATE) value *= kept[r];
$if RESIDUAL
                value += LOAD(residual, (tile + r) * rows + n);
$end
                STORE(value, out, (tile + r) * rows + n);
            }
        }
    }
}
