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
