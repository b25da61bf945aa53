// Units with operands in registers (fragments): a warp loads its fragments of both tiles, and multiplies each of A by
// each of B. LOAD_A, LOAD_B and MULTIPLY_ACCUMULATE belong to the unit or to its software emulation (twin).

#define AHEAD (STAGES - 1)  // blocks that are copied before one is multiplied
#define FRAGMENT_ROW(i) (warp % WARPS_M * WARP_M + (i) * FRAGMENT_M)
#define WARP_COLUMN (warp / WARPS_M * WARP_N)
#define MULTIPLY_TILES(a_tile, b_tile) \
    EACH_FRAGMENT \
    for (uint k = 0; k < SPAN_K; k += FRAGMENT_K) { \
        FRAGMENT_A a_part[WARP_M / FRAGMENT_M]; \
        FRAGMENT_B b_part[WARP_N / FRAGMENT_N]; \
        EACH_FRAGMENT \
        for (uint i = 0; i < WARP_M / FRAGMENT_M; i++) LOAD_A(a_part[i], a_tile, FRAGMENT_ROW(i), k); \
        EACH_FRAGMENT \
        for (uint j = 0; j < WARP_N / FRAGMENT_N; j++) LOAD_B(b_part[j], b_tile, WARP_COLUMN + j * FRAGMENT_N, k); \
        EACH_FRAGMENT \
        for (uint i = 0; i < WARP_M / FRAGMENT_M; i++) \
            EACH_FRAGMENT \
            for (uint j = 0; j < WARP_N / FRAGMENT_N; j++) MULTIPLY_ACCUMULATE(sums[i][j], a_part[i], b_part[j]); \
    }
#define MULTIPLIES_END
