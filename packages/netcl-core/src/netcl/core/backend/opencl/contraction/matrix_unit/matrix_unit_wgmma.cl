// The unit wgmma.mma_async.m64nNk16 (TF32: k8) of NVIDIA's GPUs of compute capability 9.0, in inline PTX: a warpgroup, four warps,
// multiplies 64 rows of the tile of A by all columns of that of B, which it reads in local memory by itself. A warp has the sums
// of 16 of the rows, in the layout of fragments of 16 x 8.
//
// NVIDIA's OpenCL compiler does not target sm_90a, so these instructions pass through it as comments (program_cache.py). One
// group of multiplies is under way when the next block begins: the buffer of the block before that one is free for copies.

#define AHEAD (STAGES - 2)
#define UNIT_MEMORY(some)
#define COPIES_WAIT \
    COPIES_WAIT_FOR(AHEAD - 1); \
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define FRAGMENT_ROW(i) ((warp / 4 * (WARP_M / 16) + (i)) * 64 + warp % 4 * 16)
#define WARP_COLUMN 0

// A descriptor of a tile in local memory: its address, the distance of panels of 64 columns, the distance of 8 rows, swizzled in
// rows of 128 bytes.
static inline ulong described(__local const ushort* tile) {
    return (ulong)(((uint)(size_t)tile & 0x3ffff) >> 4) | (ulong)(SPAN_K * 8) << 16 | (ulong)64 << 32 | (ulong)1 << 62;
}
#define A_STEP (A_ALONG ? 2 : 128)  // of a descriptor, for 16 words along k
#define B_STEP (B_ALONG ? 2 : 128)
#define MULTIPLY_TILES(a_tile, b_tile) { \
        const ulong a_described = described(a_tile), b_described = described(b_tile); \
        asm volatile("//@ wgmma.fence.sync.aligned;" ::: "memory"); \
        EACH_FRAGMENT \
        for (uint k = 0; k < SPAN_K / 16; k++) \
            EACH_FRAGMENT \
            for (uint i = 0; i < WARP_M / 16; i++) \
                WGMMA(sums[i], a_described + (warp / 4 * (WARP_M / 16) + i) * (64 * SPAN_K / 8) + k * A_STEP, b_described + k * B_STEP); \
        asm volatile("//@ wgmma.commit_group.sync.aligned;" ::: "memory"); \
        asm volatile("//@ wgmma.wait_group.sync.aligned 1;" ::: "memory"); \
    }
#define MULTIPLIES_END asm volatile("//@ wgmma.wait_group.sync.aligned 0;" ::: "memory")

