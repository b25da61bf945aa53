// Few rows of x times the transpose of a packed matrix: out[r, n] is the sum over k of x[r, k] * matrix[n, k].
//
// NEAR rows of the matrix belong to LANES work-items: each takes every LANES-th group of sixteen columns for all ROWS rows of
// x, which are loaded once for them, and the sums of the lanes are added in a tree. With a GATE half of them are `rows` behind the others.
// Contraction of a*b+c into one rounding is allowed here. LANES 1 is for CPUs without the local memory for packed_dots. Local memory: LANES > 1: one float per work-item.

#define OWN (GATE ? NEAR / 2 : NEAR)

$if LANES1
#define SUM(v) (v)
$else
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
$end

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

#pragma OPENCL FP_CONTRACT ON

$kernel LOOPS packed_rows(read STORAGE x, ${fields}, read STORAGE norm if NORM, read STORAGE bias if BIAS,
        read STORAGE residual if RESIDUAL, write STORAGE out, long rows, long blocks, float eps) {
$if LANES1
    const int lane = 0;
$else
    __local float sums[GROUP];
    const int item = get_local_id(0), lane = item % LANES;
$end
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
$if NORM
                const float8 both = low * low + high * high;
                const float4 four = both.lo + both.hi;
                squares[r] += (four.x + four.y) + (four.z + four.w);
                low *= XLOAD(norm + i * 16);
                high *= XLOAD(norm + i * 16 + 8);
$end
                lows[r] = low;
                highs[r] = high;
                const float8 numbers_of_x = low + high;
                sums_of_x[r] = numbers_of_x.lo + numbers_of_x.hi;
            }
            for (int a = 0; a < NEAR; a++) {
                const size_t base = own[a] * blocks;
                const int block = i / GROUPS, g = i % GROUPS;
                const float scale = scale_of(${of_row}, block, g);
                float offset = -ZERO * scale;
$if OFFSET
                offset += offset_of(${of_row}, block, g);
$end
$if SIGNED
                const float16 values = convert_float16(quants(${of_row}, block, g));
$else
                const float16 values = convert_float16(as_uchar16(quants(${of_row}, block, g) + (char)ZERO));
$end
                for (int r = 0; r < ROWS; r++) {
                    const float8 products = values.lo * lows[r] + values.hi * highs[r];
                    total[a][r] += (products.lo + products.hi) * scale;
$if OFFSET or ZERO
                    total[a][r] += sums_of_x[r] * offset;
$end
                }
            }
        }
    for (int r = 0; r < ROWS; r++) {
        float inverse = 1, value[NEAR];
$if NORM
        inverse = rsqrt(SUM(squares[r]) / columns + eps);
$end
        for (int a = 0; a < NEAR; a++) {
            const float4 four = total[a][r];
            value[a] = SUM((four.x + four.y) + (four.z + four.w)) * inverse;
            if (lane == 0 && !isfinite(value[a]))
                value[a] = of_floats(x + r * columns, NORM_OF_X, inverse, ${names}, own[a] * blocks, blocks * GROUPS);
        }
        if (lane == 0)
            for (int a = 0; a < OWN && first + a < rows; a++) {
                float result = value[a];
                const long to = r * rows + own[a];
$if BIAS
                result += LOAD(bias, own[a]);
                if (GATE) value[(a + OWN) % NEAR] += LOAD(bias, own[a] + rows);
$end
                if (GATE) result = gated(result) * value[(a + OWN) % NEAR];
$if RESIDUAL
                result += LOAD(residual, to);
$end
                STORE(result, out, to);
            }
    }
}
