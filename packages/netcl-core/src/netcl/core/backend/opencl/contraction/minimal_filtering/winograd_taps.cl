// Minimal filtering on CPU devices: the stores of weights' gradients. TURN_4 is in winograd_targets.cl.

#define TAPS_FROM_0(j) three[j / 3][j % 3]
#define TAPS_FROM_4(j) three[(j + 4) / 3][(j + 4) % 3]
#define TO_FIRST(q, x) lanes[0][q] = NARROW(x);
#define TO_SECOND(q, x) lanes[1][q] = NARROW(x);
typedef JOIN(RAW, 4) __attribute__((aligned(sizeof(RAW)))) FOUR;

// Stores the 9 taps of the first `count` lanes.
static inline void store_taps(const REALV three[3][3], __global STORAGE* out, const int count) {
    RAWV lanes[3][4];
    TURN_4(TAPS_FROM_0, TO_FIRST)
    TURN_4(TAPS_FROM_4, TO_SECOND)
    lanes[2][0] = NARROW(three[2][2]);
    for (int lane = 0; lane < count; lane++) {
        __global STORAGE* to = out + lane * 9;
        for (int i = 0; i < 2; i++) *(__global FOUR*)(to + i * 4) = *(const FOUR*)((const RAW*)lanes[i] + lane * 4);
        RAW_STORE(((const RAW*)lanes[2])[lane], to, 8);
    }
}

