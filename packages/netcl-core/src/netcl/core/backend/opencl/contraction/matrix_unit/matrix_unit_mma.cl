// The unit mma.sync.m16n8k16 of NVIDIA's GPUs from compute capability 8.0 on, in inline PTX, with ldmatrix: elements of 16 bits,
// or half as many of TF32, where each register of a fragment has one element instead of two.

#define UNIT_MEMORY(some)
#define COPIES_WAIT COPIES_WAIT_FOR(AHEAD - 1)
#if WORDS == 2
#define SHAPE "m16n8k8"
#else
#define SHAPE "m16n8k16"
#endif

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

#define MULTIPLY(sums, a, b0, b1) \
    asm("mma.sync.aligned." SHAPE ".row.col.f32." KIND "." KIND ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
        : "+f"((sums)[0]), "+f"((sums)[1]), "+f"((sums)[2]), "+f"((sums)[3]) \
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1))
