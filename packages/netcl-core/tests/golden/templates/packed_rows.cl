// packed_rows/Q4_0_float32
#pragma OPENCL FP_CONTRACT OFF
#define LEVELS 0
#define OFFSET 0
#define ZERO 8
#define GROUPS 2
#define DTYPE_FLOAT32 1
#define VECTOR 8
#define LANES 32
#define GROUP 128
#define ROWS 1
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
// The numbers of a packed matrix, sixteen neighbours (a group) at a time. FIELDS declares the parts: buffers (rows, elements),
// of which a block has a fixed number of elements. codes(block, g), scale(block, g) and offset(block, g) are expressions of
// the table of formats (netcl.core.engine.packed_formats); block counts all blocks of the matrix.

typedef uchar16 __attribute__((aligned(1))) packed_uchar16;
typedef char16 __attribute__((aligned(1))) packed_char16;

#define byte(number) ((uchar16)((uchar)(number)))
#define LANES16 (ushort16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)

// Half of 2 ** (exponent - 127): the scale E8M0 of levels that are doubled.
static inline float power(const float exponent) {
    const uint e = (uint)exponent;
    return as_float(e < 2 ? 0x200000u << e : (e - 1) << 23);
}


static inline char16 quants(__global const half* d, __global const uchar* qs, const size_t block, const int g) {
    return convert_char16(((*(__global const packed_uchar16*)(qs + block * 16 + 16 * (0))) >> byte(4 * g)) & byte(15)) - (char)ZERO;
}

static inline float scale_of(__global const half* d, __global const uchar* qs, const size_t block, const int g) { return vload_half(block * 1 + (0), d); }


static inline float16 numbers(__global const half* d, __global const uchar* qs, const size_t block, const int g) {
    const float16 scaled = convert_float16(quants(d, qs, block, g)) * scale_of(d, qs, block, g);
    return scaled;
}
// Few rows of x times the transpose of a packed matrix: out[r, n] is the sum over k of x[r, k] * matrix[n, k].
//
// A row n of the matrix belongs to LANES work-items: each takes every LANES-th group of sixteen columns for all ROWS rows of x,
// and the sums of the lanes are added in a tree. On CPUs LANES is 1, and a work-item has `each` rows of the matrix. Local
// memory: LANES > 1: one float per work-item.

__kernel LOOPS void packed_rows(
    __global const STORAGE *restrict x,
    __global const half *restrict d,
    __global const uchar *restrict qs,
    __global STORAGE *restrict out,
    const long rows,
    const long blocks,
    const long each) {
#if LANES > 1
    __local float sums[GROUP];
    const int item = get_local_id(0), lane = item % LANES;
#else
    const int lane = 0;
#endif
    const long begin = get_global_id(0) / LANES * each;
    const long columns = blocks * GROUPS * 16;
    for (long n = begin; n < begin + each; n++) {
        float16 total[ROWS];
        for (int r = 0; r < ROWS; r++) total[r] = 0;
        if (n < rows)
            for (long i = lane; i < blocks * GROUPS; i += LANES) {
                const float16 values = numbers(d, qs, n * blocks + i / GROUPS, (int)(i % GROUPS));
                for (int r = 0; r < ROWS; r++) {
                    __global const STORAGE* from = x + r * columns + i * 16;
                    total[r] += values * (float16)(VLOAD(from), VLOAD(from + 8));
                }
            }
        for (int r = 0; r < ROWS; r++) {
            const float8 eight = total[r].lo + total[r].hi;
            const float4 four = eight.lo + eight.hi;
            float sum = (four.x + four.y) + (four.z + four.w);
#if LANES > 1
            sums[item] = sum;
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int step = LANES / 2; step > 0; step /= 2) {
                if (lane < step) sums[item] += sums[item + step];
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            sum = sums[item];
            barrier(CLK_LOCAL_MEM_FENCE);
#endif
            if (n < rows && lane == 0) STORE(sum, out, r * rows + n);
        }
    }
}
