// Units whose operands are fragments in registers: a warp loads its fragments of 16 x 16 of both tiles, and multiplies each of
// A by each of B. `fragment_a`, `fragment_b` and MULTIPLY are those of the unit, or of its twin.

#define AHEAD (STAGES - 1)  // blocks that are copied before one is multiplied
#define FRAGMENT_ROW(i) (warp % WARPS_M * WARP_M + (i) * 16)
#define WARP_COLUMN (warp / WARPS_M * WARP_N)
#define MULTIPLY_TILES(a_tile, b_tile) \
    EACH_FRAGMENT \
    for (uint k = 0; k < SPAN_K; k += 16) { \
        uint4 a_part[WARP_M / 16], b_part[WARP_N / 16]; \
        EACH_FRAGMENT \
        for (uint i = 0; i < WARP_M / 16; i++) a_part[i] = fragment_a(a_tile, FRAGMENT_ROW(i), k, lane); \
        EACH_FRAGMENT \
        for (uint j = 0; j < WARP_N / 16; j++) b_part[j] = fragment_b(b_tile, WARP_COLUMN + j * 16, k, lane); \
        EACH_FRAGMENT \
        for (uint i = 0; i < WARP_M / 16; i++) \
            EACH_FRAGMENT \
            for (uint j = 0; j < WARP_N / 16; j++) { \
                MULTIPLY(sums[i][2 * j], a_part[i], b_part[j].x, b_part[j].y); \
                MULTIPLY(sums[i][2 * j + 1], a_part[i], b_part[j].z, b_part[j].w); \
            } \
    }
#define MULTIPLIES_END

