// trellis/float32
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define LOOPS __attribute__((vec_type_hint(float16)))
// Storage and arithmetic types of one dtype. The Python side defines one of DTYPE_FLOAT32, DTYPE_FLOAT16,
// DTYPE_BFLOAT16, DTYPE_FLOAT64, DTYPE_INT32, DTYPE_INT64, DTYPE_UINT8 before this text.
// STORAGE is what lies in the buffer, REAL what is computed with; LOAD and STORE convert.

#if defined(DTYPE_FLOAT64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#if defined(DTYPE_FLOAT16)
#define STORAGE half
#define REAL float
#define LOAD(p, i) vload_half((i), (p))
#define STORE(x, p, i) vstore_half((x), (i), (p))
#elif defined(DTYPE_BFLOAT16)
#define STORAGE ushort
#define REAL float
static inline float load_bfloat16(ushort x) { return as_float((uint)x << 16); }
static inline ushort store_bfloat16(float x) {
    // Round to nearest even; a NaN keeps its sign and becomes quiet.
    uint u = as_uint(x);
    uint rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return (ushort)(isnan(x) ? ((u >> 16) | 0x40u) : rounded);
}
#define LOAD(p, i) load_bfloat16((p)[i])
#define STORE(x, p, i) ((p)[i] = store_bfloat16(x))
#else
#if defined(DTYPE_FLOAT32)
#define STORAGE float
#elif defined(DTYPE_FLOAT64)
#define STORAGE double
#elif defined(DTYPE_INT32)
#define STORAGE int
#elif defined(DTYPE_INT64)
#define STORAGE long
#elif defined(DTYPE_UINT8)
#define STORAGE uchar
#endif
#define REAL STORAGE
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
#endif

#ifdef VECTOR
// Unaligned vectors of VECTOR elements: VLOAD(p) and VSTORE(x, p) on storage, GLOAD and GSTORE on REAL in global memory,
// by plain accesses through a vector that may lie anywhere, since PoCL's vload8 and vstore8 take three times as long;
// RLOAD and RSTORE on REAL anywhere.
#define REALV JOIN(REAL, VECTOR)
#ifdef DTYPE_FLOAT64
typedef REALV __attribute__((aligned(8))) PACKED;
#else
typedef REALV __attribute__((aligned(4))) PACKED;
#endif
#define GLOAD(p) (*(__global const PACKED*)(p))
#define GSTORE(x, p) (*(__global PACKED*)(p) = (x))
#define RLOAD(p) JOIN(vload, VECTOR)(0, (p))
#define RSTORE(x, p) JOIN(vstore, VECTOR)((x), 0, (p))
#if defined(DTYPE_FLOAT16)
#define VLOAD(p) JOIN(vload_half, VECTOR)(0, (p))
#define VSTORE(x, p) JOIN(vstore_half, VECTOR)((x), 0, (p))
#elif defined(DTYPE_BFLOAT16)
#define VLOAD(p) JOIN(as_float, VECTOR)(JOIN(convert_uint, VECTOR)(RLOAD(p)) << 16)
static inline void store_bfloat16_vector(REALV x, __global ushort* p) {
    JOIN(uint, VECTOR) u = JOIN(as_uint, VECTOR)(x);
    JOIN(uint, VECTOR) rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    u = select(rounded, (u >> 16) | 0x40u, isnan(x));
    RSTORE(JOIN(convert_ushort, VECTOR)(u), p);
}
#define VSTORE(x, p) store_bfloat16_vector((x), (p))
#else
#define VLOAD(p) GLOAD(p)
#define VSTORE(x, p) GSTORE((x), (p))
#endif
#endif
// Sums over the paths through a trellis (steps, n, states), in logarithms. From one step to the next a path stays, goes on
// by one state, or jumps two ahead where the state that it reaches allows that.
//
// Forward: out[t, l] = x[t, l] + log(sum of exp(out[t - 1]) at l, l - 1 and, by jumps[l], l - 2); paths start in state 0 or
// 1. Backward: out[t, l] = log(exp(begins[t, l]) + sum of exp(x[t + 1] + out[t + 1]) at l, l + 1 and, by jumps[l + 2], l + 2).
// One work-group walks the steps of a sample, its work-items side by side over the states; each state is summed by one of
// them, in one order. No local memory.

typedef struct {
    long steps, n, states, backward;
} lattice;

static inline REAL log_sum(const REAL a, const REAL b, const REAL c) {
    const REAL top = fmax(a, fmax(b, c));
    return top == -INFINITY ? top : top + log(exp(a - top) + exp(b - top) + exp(c - top));
}

__kernel void walk(__global const STORAGE* x, __global const uchar* jumps, __global const STORAGE* begins,
                   __global STORAGE* out, const lattice g) {
    const long sample = get_group_id(0), plane = g.n * g.states;
    jumps += sample * g.states;
    for (long step = 0; step < g.steps; step++) {
        const long now = (g.backward ? g.steps - 1 - step : step) * plane + sample * g.states;
        const long last = g.backward ? now + plane : now - plane;
        for (long l = get_local_id(0); l < g.states; l += get_local_size(0)) {
            REAL value;
            if (step == 0) {
                value = g.backward ? LOAD(begins, now + l) : l < 2 ? LOAD(x, now + l) : (REAL)-INFINITY;
            } else if (g.backward) {
                const int one = l + 1 < g.states, two = l + 2 < g.states && jumps[min(l + 2, g.states - 1)];
                const REAL stay = LOAD(out, last + l) + LOAD(x, last + l);
                const REAL on = one ? LOAD(out, last + l + 1) + LOAD(x, last + l + 1) : (REAL)-INFINITY;
                const REAL ahead = two ? LOAD(out, last + l + 2) + LOAD(x, last + l + 2) : (REAL)-INFINITY;
                value = log_sum(log_sum(stay, on, ahead), LOAD(begins, now + l), (REAL)-INFINITY);
            } else {
                const REAL on = l > 0 ? LOAD(out, last + l - 1) : (REAL)-INFINITY;
                const REAL ahead = l > 1 && jumps[l] ? LOAD(out, last + l - 2) : (REAL)-INFINITY;
                value = log_sum(LOAD(out, last + l), on, ahead) + LOAD(x, now + l);
            }
            STORE(value, out, now + l);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
