// Asynchronous copies of NVIDIA's GPUs from compute capability 8.0 on, in inline PTX, and pairs of results. A local pointer is
// a shared address of 32 bits.

#define EACH_FRAGMENT _Pragma("unroll")
#define EACH_CHUNK _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#define COPIES_END asm volatile("cp.async.commit_group;" ::: "memory")
#define COPIES_WAIT_FOR(groups) asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory")
#define ALIGNED_TILES __attribute__((aligned(1024)))

static inline void copy_chunk(__local ushort* to, __global const ushort* from, const int count) {
#if CHUNKS_ALIGNED
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint)(size_t)to), "l"(from), "r"(count * 2) : "memory");
#else
    uint4 chunk = 0;
    if (count > 0) chunk.x = from[0];
    if (count > 1) chunk.x |= (uint)from[1] << 16;
    if (count > 2) chunk.y = from[2];
    if (count > 3) chunk.y |= (uint)from[3] << 16;
    if (count > 4) chunk.z = from[4];
    if (count > 5) chunk.z |= (uint)from[5] << 16;
    if (count > 6) chunk.w = from[6];
    if (count > 7) chunk.w |= (uint)from[7] << 16;
    *(__local uint4*)to = chunk;
#endif
}

static inline void copy_whole_chunk(__local ushort* to, __global const ushort* from) {
#if CHUNKS_ALIGNED
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint)(size_t)to), "l"(from) : "memory");
#else
    copy_chunk(to, from, 8);
#endif
}

#define NOT_INLINED __attribute__((noinline))

#if PARTS || WORDS > 1
#define STORE_PAIR(first, second, out, at) *(__global JOIN(REAL, 2)*)((out) + (at)) = (JOIN(REAL, 2))(first, second)
#else
static inline void store_pair(__global ushort* to, const float first, const float second) {
    uint pair;
    asm("cvt.rn." KIND "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    *(__global uint*)to = pair;
}
#define STORE_PAIR(first, second, out, at) store_pair((__global ushort*)(out) + (at), first, second)
#endif

