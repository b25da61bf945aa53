// The software twin of warp_nvidia.cl in plain OpenCL C: lanes exchange digits through local memory, so control flow around it is
// uniform over the work-group.

#define WARP 32
#define WARP_MEMORY __local uint digits_of_lanes[GROUP];
#define WARP_SYNC barrier(CLK_LOCAL_MEM_FENCE)

#define PEERS(peers, digit) \
    uint peers = 0; \
    digits_of_lanes[item] = digit; \
    barrier(CLK_LOCAL_MEM_FENCE); \
    for (uint other = 0; other < WARP; other++) peers |= (uint)(digits_of_lanes[item - item % WARP + other] == (digit)) << other; \
    barrier(CLK_LOCAL_MEM_FENCE);

#define PUBLISH(place, word) atomic_xchg(place, word)
#define published(place) atomic_or(place, 0)

#define PUBLISH_FLAGGED(place, word) { \
        atomic_xchg((place) + 1, word); \
        mem_fence(CLK_GLOBAL_MEM_FENCE); \
        atomic_xchg(place, 1); \
    }
#define AWAIT_FLAGGED(place, word) { \
        while (!atomic_or(place, 0)); \
        mem_fence(CLK_GLOBAL_MEM_FENCE); \
        word = atomic_or((place) + 1, 0); \
    }
