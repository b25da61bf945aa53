// A warp of 32 work-items on NVIDIA's GPUs from compute capability 7.0 on, in inline PTX, and words in global memory that
// work-groups publish and read while others run.

#define WARP 32
#define WARP_MEMORY
#define WARP_SYNC asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")

// Bits of the lanes whose `digit` of eight bits is the same.
#define SHARE_BIT(peers, digit, bit) \
    asm volatile("{ .reg .pred p; .reg .b32 m; and.b32 m, %1, " #bit "; setp.ne.u32 p, m, 0; vote.sync.ballot.b32 m, p, 0xffffffff; " \
                 "@!p not.b32 m, m; and.b32 %0, %0, m; }" : "+r"(peers) : "r"(digit))
#define PEERS(peers, digit) \
    uint peers = ~0u; \
    SHARE_BIT(peers, digit, 1); SHARE_BIT(peers, digit, 2); SHARE_BIT(peers, digit, 4); SHARE_BIT(peers, digit, 8); \
    SHARE_BIT(peers, digit, 16); SHARE_BIT(peers, digit, 32); SHARE_BIT(peers, digit, 64); SHARE_BIT(peers, digit, 128);

#define PUBLISH(place, word) asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(place), "r"(word) : "memory")

static inline uint published(__global const uint* place) {
    uint word;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(place) : "memory");
    return word;
}

// A word with a flag, two words of memory that are zero before: one access moves both.
#define PUBLISH_FLAGGED(place, word) \
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(place), "l"((ulong)(word) << 32 | 1) : "memory")
#define AWAIT_FLAGGED(place, word) { \
        ulong flagged; \
        do asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(flagged) : "l"(place) : "memory"); \
        while (!flagged); \
        word = flagged >> 32; \
    }
