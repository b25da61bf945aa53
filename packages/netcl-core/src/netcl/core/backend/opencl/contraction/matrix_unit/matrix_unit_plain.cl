// Copies in plain OpenCL C, which a barrier ends, for software twins and for units of devices without asynchronous copies.

#if UNROLLED
#define EACH_FRAGMENT _Pragma("unroll")
#define EACH_CHUNK _Pragma("unroll")
#else
#define EACH_FRAGMENT
#define EACH_CHUNK
#endif
#define ROLLED
#define COPIES_END
#define COPIES_WAIT
#define ALIGNED_TILES __attribute__((aligned(16)))
#define NOT_INLINED inline

static inline SUM element(const ELEMENT x) { return ELEMENT_X; }

static inline void copy_chunk(__local ushort* to, __global const ushort* from, const int count) {
    for (int i = 0; i < 8; i++) to[i] = i < count ? from[i] : (ushort)0;
}

static inline void copy_whole_chunk(__local ushort* to, __global const ushort* from) {
#if CHUNKS_ALIGNED
    *(__local uint4*)to = *(__global const uint4*)from;
#else
    for (int i = 0; i < 8; i++) to[i] = from[i];
#endif
}

#define STORE_PAIR(first, second, out, at) STORE(first, out, at), STORE(second, out, (at) + 1)

