// packed_rows/Q4_0_float32
#pragma OPENCL FP_CONTRACT OFF
#define LEVELS 0
#define OFFSET 0
#define ZERO 8
#define SIGNED 0
#define GROUPS 2
#define DTYPE_FLOAT32 1
#define VECTOR 8
#define LANES 32
#define LANES1 0
#define GROUP 128
#define ROWS 1
#define NEAR 2
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
// Few rows of x times the transpose of a packed matrix: out[r, n] is the sum over k of x[r, k] * matrix[n, k].
//
// NEAR rows of the matrix belong to LANES work-items: each takes every LANES-th group of sixteen columns for all ROWS rows of
// x, which are loaded once for them, and the sums of the lanes are added in a tree. With a GATE half of them are `rows` behind the others.
// Contraction of a*b+c into one rounding is allowed here. LANES 1 is for CPUs without the local memory for packed_dots. Local memory: LANES > 1: one float per work-item.

#define OWN (GATE ? NEAR / 2 : NEAR)

static inline float of_lanes(float v, __local float* sums, const int item, const int lane) {
#if defined(__NV_CL_C_VERSION) && LANES >= 32
    for (int step = 16; step > 0; step /= 2) {
        float other;
        asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(other) : "f"(v), "r"(step));
        v += other;
    }
    if (LANES == 32) return v;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0) sums[item / 32] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0;
    for (int i = 0; i < LANES / 32; i++) sum += sums[(item - lane) / 32 + i];
    return sum;
#else
    barrier(CLK_LOCAL_MEM_FENCE);
    sums[item] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = LANES / 2; step > 0; step /= 2) {
        if (lane < step) sums[item] += sums[item + step];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return sums[item - lane];
#endif
}
#define SUM(v) of_lanes(v, sums, item, lane)

// Buffers begin at multiples of these sizes, which NVIDIA's compiler has to know for loads of several numbers.
#ifdef __NV_CL_C_VERSION
#define XLOAD(p) (*(__global const float8*)(p))
#else
#define XLOAD(p) VLOAD(p)
#endif

#pragma OPENCL FP_CONTRACT ON

__kernel LOOPS void packed_rows(
    __global const STORAGE *restrict x,
    __global const half *restrict d,
    __global const uchar *restrict qs,
    __global STORAGE *restrict out,
    const long rows,
    const long blocks,
    const float eps) {
    __local float sums[GROUP];
    const int item = get_local_id(0), lane = item % LANES;
    const long first = get_global_id(0) / LANES * OWN, columns = blocks * GROUPS * 16;
    long own[NEAR];
    for (int a = 0; a < NEAR; a++) own[a] = min(first + a % OWN, rows - 1) + a / OWN * rows;
    float4 total[NEAR][ROWS];
    float squares[ROWS];
    for (int r = 0; r < ROWS; r++) {
        squares[r] = 0;
        for (int a = 0; a < NEAR; a++) total[a][r] = 0;
    }
    if (first < rows)
        for (int i = lane; i < (int)blocks * GROUPS; i += LANES) {
            float8 lows[ROWS], highs[ROWS];
            float4 sums_of_x[ROWS];
            for (int r = 0; r < ROWS; r++) {
                __global const STORAGE* from = x + r * columns + i * 16;
                float8 low = XLOAD(from), high = XLOAD(from + 8);
                lows[r] = low;
                highs[r] = high;
                const float8 numbers_of_x = low + high;
                sums_of_x[r] = numbers_of_x.lo + numbers_of_x.hi;
            }
            for (int a = 0; a < NEAR; a++) {
                const size_t base = own[a] * blocks;
                const int block = i / GROUPS, g = i % GROUPS;
                const float scale = scale_of(d + base * 1, qs + base * 16, block, g);
                float offset = -ZERO * scale;
                const float16 values = convert_float16(as_uchar16(quants(d + base * 1, qs + base * 16, block, g) + (char)ZERO));
                for (int r = 0; r < ROWS; r++) {
                    const float8 products = values.lo * lows[r] + values.hi * highs[r];
                    total[a][r] += (products.lo + products.hi) * scale;
                    total[a][r] += sums_of_x[r] * offset;
                }
            }
        }
    for (int r = 0; r < ROWS; r++) {
        float inverse = 1, value[NEAR];
        for (int a = 0; a < NEAR; a++) {
            const float4 four = total[a][r];
            value[a] = SUM((four.x + four.y) + (four.z + four.w)) * inverse;
            if (lane == 0 && !isfinite(value[a]))
                value[a] = of_floats(x + r * columns, NORM_OF_X, inverse, d, qs, own[a] * blocks, blocks * GROUPS);
        }
        if (lane == 0)
            for (int a = 0; a < OWN && first + a < rows; a++) {
                float result = value[a];
                const long to = r * rows + own[a];
                if (GATE) result = gated(result) * value[(a + OWN) % NEAR];
                STORE(result, out, to);
            }
    }
}
