// Few rows of x times the transpose of a packed matrix: out[r, n] is the sum over k of x[r, k] * matrix[n, k].
//
// NEAR rows of the matrix belong to LANES work-items. Each takes every LANES-th unit, MEMBERS groups of sixteen columns
// at the DISTANCE of groups that share bytes of codes; the sums of the lanes are added at the end. With a GATE half of
// the rows are `rows` behind.
// A group rounds x, SEGMENT units at a time, for all its rows of the matrix, to integers of DIGITS bytes. A unit has one
// scale, a power of two, so that numbers of few bits keep their value. Codes are multiplied as they are, four in an
// instruction. Units with a number that is not finite make sums NaN, which are computed again without rounding.
// Contraction of a*b+c into one rounding is allowed here. Local memory: the digits of a segment, its factors and sums of
// x, and partial sums, ROWS more floats than NEAR * ROWS for each work-item.

#define OWN (GATE ? NEAR / 2 : NEAR)
#define SUMS (NEAR * ROWS + (NORM ? ROWS : 0))
#define SPAN (MEMBERS / SCALES)
#ifdef __NV_CL_C_VERSION
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#endif

// The products of four codes with four digits of x, the first of which has a sign, added to a sum.
#if DOT4 && defined(__NV_CL_C_VERSION)
$if SIGNED
#define DP4A "dp4a.s32"
$else
#define DP4A "dp4a.u32"
$end
static inline int dot_first(const uint codes, const uint digits, int sum) {
    asm(DP4A ".s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(codes), "r"(digits));
    return sum;
}
static inline int dot_next(const uint codes, const uint digits, int sum) {
    asm(DP4A ".u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(codes), "r"(digits));
    return sum;
}
#else
$if SIGNED
#define OF_CODES(codes) as_char4(codes)
#define PACKED_FIRST dot_4x8packed_ss_int
#define PACKED_NEXT dot_4x8packed_su_int
$else
#define OF_CODES(codes) as_uchar4(codes)
#define PACKED_FIRST dot_4x8packed_us_int
#define PACKED_NEXT dot_4x8packed_uu_uint
$end
#if DOT4 && defined(__opencl_c_integer_dot_product_input_4x8bit_packed)
#define dot_first(codes, digits, sum) (PACKED_FIRST(codes, digits) + (sum))
#define dot_next(codes, digits, sum) ((int)PACKED_NEXT(codes, digits) + (sum))
#else
static inline int of_four(const int4 products) { return (products.x + products.y) + (products.z + products.w); }
#define dot_first(codes, digits, sum) (of_four(convert_int4(OF_CODES(codes)) * convert_int4(as_char4(digits))) + (sum))
#define dot_next(codes, digits, sum) (of_four(convert_int4(OF_CODES(codes)) * convert_int4(as_uchar4(digits))) + (sum))
#endif
#endif

static inline int of_sixteen_first(const uint4 codes, const uint4 digits, const int sum) {
    return dot_first(codes.w, digits.w, dot_first(codes.z, digits.z, dot_first(codes.y, digits.y, dot_first(codes.x, digits.x, sum))));
}
static inline int of_sixteen(const uint4 codes, const uint4 digits, const int sum) {
    return dot_next(codes.w, digits.w, dot_next(codes.z, digits.z, dot_next(codes.y, digits.y, dot_next(codes.x, digits.x, sum))));
}

// The bytes `at` of four words.
#ifdef __NV_CL_C_VERSION
static inline uint bytes(const uint4 v, const int at) {
    uint first, second;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(first) : "r"(v.x), "r"(v.y), "r"(0x40 + 0x11 * at));
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(second) : "r"(v.z), "r"(v.w), "r"(0x40 + 0x11 * at));
    return (first & 0xffff) | second << 16;
}
#else
static inline uint bytes(const uint4 v, const int at) { return as_uint(convert_uchar4(v >> (uint)(8 * at) & 255)); }
#endif

// Stores the digits of sixteen integers, the first in front. Added to 1.5 * 2**23 they are the lower bits.
static inline void store_digits(const float16 scaled, __local uint4* digits) {
    const uint16 v = as_uint16(scaled + 12582912.0f) - 0x4b400000u;
    UNROLL for (int i = 0; i < DIGITS; i++) {
        const int at = DIGITS - 1 - i;
        digits[i * MEMBERS * SEGMENT] =
            (uint4)(bytes(v.lo.lo, at), bytes(v.lo.hi, at), bytes(UPPER(v).lo, at), bytes(UPPER(v).hi, at));
    }
}

static inline float across(const float8 v) {
    const float4 four = v.lo + v.hi;
    return (four.x + four.y) + (four.z + four.w);
}

// Buffers begin at multiples of these sizes, which NVIDIA's compiler has to know for loads of several numbers.
#ifdef __NV_CL_C_VERSION
$if DTYPE_FLOAT32
#define XLOAD(p) (*(__global const float8*)(p))
$else
$if DTYPE_FLOAT16
#define XLOAD(p) vloada_half8(0, (__global const half*)(p))
$else
#define XLOAD(p) as_float8(convert_uint8(*(__global const ushort8*)(p)) << 16)
$end
$end
#else
#define XLOAD(p) VLOAD(p)
#endif

#if defined(__NV_CL_C_VERSION) && LANES >= 32
#define PARTIALS (LANES / 32)
static inline float of_warp(float v) {
    for (int step = 16; step > 0; step /= 2) {
        float other;
        asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(other) : "f"(v), "r"(step));
        v += other;
    }
    return v;
}
#else
#define PARTIALS LANES
#define of_warp(v) (v)
#endif
// Rows of partial sums begin in different banks of the local memory.
#define STRIDE (GROUP / LANES * PARTIALS + 1)

static inline float sum_of(__local const float* sums, const int count) {
    float sum = 0;
    for (int i = 0; i < count; i++) sum += sums[i];
    return sum;
}

// The first group of a unit.
#define UNIT(unit) ((unit) / DISTANCE * (DISTANCE * MEMBERS) + (unit) % DISTANCE)
// The scales of a unit and its offsets. Conversions of integers take NVIDIA's GPUs longer than two other instructions.
static inline float2 two_bytes(__global const uchar* from) {
#ifdef __NV_CL_C_VERSION
    const uint both = *(__global const ushort*)from;
    return as_float2((uint2)(both & 255, both >> 8) | 0x4b000000u) - 0x1p23f;
#else
    return (float2)(from[0], from[1]);
#endif
}
static inline float2 scales_of(${declared}, const size_t block, const int g) { return ${scale2}; }
$if OFFSET
static inline float2 offsets_of(${declared}, const size_t block, const int g) { return ${offset2}; }
$end

#pragma OPENCL FP_CONTRACT ON

$kernel LOOPS packed_rows(read STORAGE x, ${fields}, read STORAGE norm if NORM, read STORAGE bias if BIAS,
        read STORAGE residual if RESIDUAL, write STORAGE out, long rows, long blocks, float eps) {
    __local uint4 digits[ROWS * DIGITS * MEMBERS * SEGMENT];
    __local float factors[ROWS * SEGMENT], sums_of_x[ROWS * SCALES * SEGMENT], sums[SUMS * STRIDE];
    const int item = get_local_id(0), lane = item % LANES, units = (int)blocks * (GROUPS / MEMBERS);
    const long first = get_global_id(0) / LANES * OWN, columns = blocks * GROUPS * 16;
    long own[NEAR];
    UNROLL for (int a = 0; a < NEAR; a++) own[a] = min(first + a % OWN, rows - 1) + a / OWN * rows;
    float total[NEAR][ROWS], squares[ROWS];
    UNROLL for (int r = 0; r < ROWS; r++) {
        squares[r] = 0;
        UNROLL for (int a = 0; a < NEAR; a++) total[a][r] = 0;
    }
    for (int begin = 0; begin < units; begin += SEGMENT) {
        const int count = min(SEGMENT, units - begin);
        if (begin > 0) barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = item; i < count; i += GROUP)
            UNROLL for (int r = 0; r < ROWS; r++) {
                const long at = UNIT(begin + i) * 16;
                float16 numbers_of_x[MEMBERS];
                float8 largest8 = 0;
                float check = 0;
                UNROLL for (int k = 0; k < MEMBERS; k++) {
                    __global const STORAGE* from = x + r * columns + at + k * DISTANCE * 16;
                    numbers_of_x[k] = SIXTEEN(XLOAD(from), XLOAD(from + 8));
$if NORM
                    squares[r] += across(numbers_of_x[k].lo * numbers_of_x[k].lo + UPPER(numbers_of_x[k]) * UPPER(numbers_of_x[k]));
                    __global const STORAGE* of_norm = norm + at + k * DISTANCE * 16;
                    numbers_of_x[k] *= SIXTEEN(XLOAD(of_norm), XLOAD(of_norm + 8));
$end
                    largest8 = fmax(largest8, fmax(fabs(numbers_of_x[k].lo), fabs(UPPER(numbers_of_x[k]))));
                }
                UNROLL for (int s = 0; s < SCALES; s++) {
                    float8 eight = 0;
                    UNROLL for (int k = s * SPAN; k < (s + 1) * SPAN; k++) eight += numbers_of_x[k].lo + UPPER(numbers_of_x[k]);
                    const float sum = across(eight);
                    sums_of_x[(r * SCALES + s) * SEGMENT + i] = sum;
                    check += 0 * sum;
                }
                const float4 four = fmax(largest8.lo, largest8.hi);
                const float largest = fmax(fmax(four.x, four.y), fmax(four.z, four.w));
                // A number that would be rounded to the power above the largest integer has that power.
                const uint exponent = (as_uint(largest) + (1u << (23 - LIMIT))) & 0x7f800000u;
                const uint power = as_uint(fmax(as_float(exponent), 0x1p-100f));
                const float factor = as_float(((uint)(253 + LIMIT) << 23) - power);
                UNROLL for (int k = 0; k < MEMBERS; k++)
                    store_digits(numbers_of_x[k] * factor, digits + (r * DIGITS * MEMBERS + k) * SEGMENT + i);
                factors[r * SEGMENT + i] = as_float(power) * (2.0f / (1 << LIMIT)) + check;
            }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = lane; i < count; i += LANES) {
            const int block = (begin + i) / (GROUPS / MEMBERS), g = (int)(UNIT(begin + i) % GROUPS);
            uint4 codes[NEAR][MEMBERS];
            float2 scale2[NEAR], offset2[NEAR];
            UNROLL for (int a = 0; a < NEAR; a++) {
                const size_t base = own[a] * blocks;
                UNROLL for (int k = 0; k < MEMBERS; k++)
$if SIGNED
                    codes[a][k] = as_uint4(quants(${of_row}, block, g + k * DISTANCE));
$else
                    codes[a][k] = codes_of(${of_row}, block, g + k * DISTANCE);
$end
                scale2[a] = scales_of(${of_row}, block, g);
                offset2[a] = -ZERO * scale2[a];
$if OFFSET
                offset2[a] += offsets_of(${of_row}, block, g);
$end
            }
            UNROLL for (int r = 0; r < ROWS; r++) {
                const float factor = factors[r * SEGMENT + i];
                UNROLL for (int s = 0; s < SCALES; s++) {
                    uint4 x_digits[DIGITS][SPAN];
                    UNROLL for (int k = 0; k < DIGITS * SPAN; k++)
                        x_digits[k / SPAN][k % SPAN] = digits[((r * DIGITS + k / SPAN) * MEMBERS + s * SPAN + k % SPAN) * SEGMENT + i];
$if OFFSET or ZERO
                    const float sum_of_x = sums_of_x[(r * SCALES + s) * SEGMENT + i];
$end
                    UNROLL for (int a = 0; a < NEAR; a++) {
                        int of_digits[DIGITS];
                        UNROLL for (int n = 0; n < DIGITS; n++) {
                            int sum = n == 1 ? of_digits[0] * 256 : 0;
                            UNROLL for (int k = 0; k < SPAN; k++) {
                                const uint4 own_codes = codes[a][s * SPAN + k];
                                sum = n == 0 ? of_sixteen_first(own_codes, x_digits[n][k], sum) : of_sixteen(own_codes, x_digits[n][k], sum);
                            }
                            of_digits[n] = sum;
                        }
                        float product = (float)of_digits[1];
                        if (DIGITS == 3) product = product * 256 + (float)of_digits[DIGITS - 1];
                        total[a][r] += product * ((s == 0 ? scale2[a].x : scale2[a].y) * factor);
$if OFFSET or ZERO
                        total[a][r] += sum_of_x * (s == 0 ? offset2[a].x : offset2[a].y);
$end
                    }
                }
            }
        }
    }
    UNROLL for (int i = 0; i < SUMS; i++) {
        const float sum = of_warp(i < NEAR * ROWS ? total[i / ROWS][i % ROWS] : squares[i % ROWS]);
        if (lane % (LANES / PARTIALS) == 0) sums[i * STRIDE + item / (LANES / PARTIALS)] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = lane; i < OWN * ROWS; i += LANES) {
        const int a = i / ROWS, r = i % ROWS;
        if (first + a >= rows) break;
        __local const float* of_set = sums + item / LANES * PARTIALS;
        float inverse = 1, value[GATE ? 2 : 1];
$if NORM
        inverse = rsqrt(sum_of(sums + (NEAR * ROWS + r) * STRIDE, STRIDE - 1) / columns + eps);
$end
        for (int h = 0; h < (GATE ? 2 : 1); h++) {
            const long n = first + a + h * rows;
            value[h] = sum_of(of_set + ((a + h * OWN) * ROWS + r) * STRIDE, PARTIALS) * inverse;
            if (!isfinite(value[h]))
                value[h] = of_floats(x + r * columns, NORM_OF_X, inverse, ${names}, n * blocks, blocks * GROUPS);
$if BIAS
            value[h] += LOAD(bias, n);
$end
        }
        const long to = r * rows + first + a;
        float result = value[0];
        if (GATE) result = gated(result) * value[GATE ? 1 : 0];
$if RESIDUAL
        result += LOAD(residual, to);
$end
        STORE(result, out, to);
    }
}
