// A warp of 32 work-items on NVIDIA's GPUs from compute capability 7.0 on, in inline PTX, and words in global memory that
// work-groups publish and read while others run.

#define WARP 32
#define WARP_MEMORY
#define WARP_SYNC asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")

// The number of a work-group in the order in which they begin, which is that of their ids.
#define TAKE_TICKET(ticket, counter) const uint ticket = get_group_id(0);

// Bits of the lanes with the same `digit` of eight bits.
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

// Words with a flag, two words of memory each; one access moves both.
#define PUBLISH_FLAGGED(place, word, flag) \
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(place), "l"((ulong)(word) << 32 | (flag)) : "memory")
#define AWAIT_FLAGGED(places, read, count, flag) { \
        bool missing; \
        do { \
            missing = false; \
            for (uint w = 0; w < (count); w++) { \
                ulong flagged; \
                asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(flagged) : "l"((places) + 2 * w) : "memory"); \
                missing |= (uint)flagged != (flag); \
                (read)[w] = flagged >> 32; \
            } \
        } while (missing); \
    }
