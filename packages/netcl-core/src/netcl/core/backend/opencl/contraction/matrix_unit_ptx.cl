// The matrix unit of NVIDIA from compute capability 8.0 on, in inline PTX: asynchronous copies to local memory, ldmatrix and
// mma.sync.m16n8k16. A local pointer is a shared address of 32 bits.

#define EACH_FRAGMENT _Pragma("unroll")
#define EACH_CHUNK _Pragma("unroll")
#define COPIES_END asm volatile("cp.async.commit_group;" ::: "memory")
#define COPIES_WAIT asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory")
#define UNIT_MEMORY
#define ALIGNED_TILES __attribute__((aligned(128)))

static inline void copy_chunk(__local ushort* to, __global const ushort* from, const int count) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint)(size_t)to), "l"(from), "r"(count * 2) : "memory");
}

static inline void copy_whole_chunk(__local ushort* to, __global const ushort* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint)(size_t)to), "l"(from) : "memory");
}

static inline uint4 rows_of(__local const ushort* from) {
    uint4 part;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(part.x), "=r"(part.y), "=r"(part.z), "=r"(part.w) : "r"((uint)(size_t)from) : "memory");
    return part;
}

static inline uint4 columns_of(__local const ushort* from) {
    uint4 part;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(part.x), "=r"(part.y), "=r"(part.z), "=r"(part.w) : "r"((uint)(size_t)from) : "memory");
    return part;
}

static inline uint4 fragment_a(__local const ushort* tile, const uint row, const uint k, const uint lane) {
#if A_ALONG
    return rows_of(tile + ALONG(row + lane % 16, lane % 8, k / 8 + lane / 16));
#else
    return columns_of(tile + ACROSS(SPAN_M, k + lane % 8 + lane / 16 * 8, lane % 8, row / 8 + lane / 8 % 2));
#endif
}

static inline uint4 fragment_b(__local const ushort* tile, const uint column, const uint k, const uint lane) {
#if B_ALONG
    return rows_of(tile + ALONG(column + lane % 8 + lane / 16 * 8, lane % 8, k / 8 + lane / 8 % 2));
#else
    return columns_of(tile + ACROSS(SPAN_N, k + lane % 16, lane % 8, column / 8 + lane / 16));
#endif
}

#define MULTIPLY(sums, a, b0, b1) \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." KIND "." KIND ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]) \
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1))
