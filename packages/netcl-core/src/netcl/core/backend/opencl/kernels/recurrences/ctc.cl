// CTC forward-backward: log sums over the paths through (steps, n, states). From one step to the next a path stays, goes on
// by one state, or jumps two ahead where the state that it reaches allows that.
//
// Forward: out[t, l] = x[t, l] + log(sum of exp(out[t - 1]) at l, l - 1 and, by jumps[l], l - 2); paths start in state 0 or
// 1. Backward: out[t, l] = log(exp(begins[t, l]) + sum of exp(x[t + 1] + out[t + 1]) at l, l + 1 and, by jumps[l + 2], l + 2).
// One work-group iterates over the steps of a sample, its work-items side by side over the states; each state is summed
// by one of them, in one order. No local memory.

typedef struct {
    long steps, n, states, backward;
} lattice;

static inline REAL log_sum(const REAL a, const REAL b, const REAL c) {
    const REAL top = fmax(a, fmax(b, c));
    return top == -INFINITY ? top : top + log(exp(a - top) + exp(b - top) + exp(c - top));
}

$kernel walk(read STORAGE* x, read uchar* jumps, read STORAGE* begins, write STORAGE* out, lattice g) {
    const long sample = get_group_id(0), plane = g.n * g.states;
    jumps += sample * g.states;
    for (long step = 0; step < g.steps; step++) {
        const long now = (g.backward ? g.steps - 1 - step : step) * plane + sample * g.states;
        const long last = g.backward ? now + plane : now - plane;
        for (long l = get_local_id(0); l < g.states; l += get_local_size(0)) {
            REAL value;
            if (step == 0) {
                value = g.backward ? LOAD(begins, now + l) : l < 2 ? LOAD(x, now + l) : (REAL)-INFINITY;
            } else if (g.backward) {
                const int one = l + 1 < g.states, two = l + 2 < g.states && jumps[min(l + 2, g.states - 1)];
                const REAL stay = LOAD(out, last + l) + LOAD(x, last + l);
                const REAL on = one ? LOAD(out, last + l + 1) + LOAD(x, last + l + 1) : (REAL)-INFINITY;
                const REAL ahead = two ? LOAD(out, last + l + 2) + LOAD(x, last + l + 2) : (REAL)-INFINITY;
                value = log_sum(log_sum(stay, on, ahead), LOAD(begins, now + l), (REAL)-INFINITY);
            } else {
                const REAL on = l > 0 ? LOAD(out, last + l - 1) : (REAL)-INFINITY;
                const REAL ahead = l > 1 && jumps[l] ? LOAD(out, last + l - 2) : (REAL)-INFINITY;
                value = log_sum(LOAD(out, last + l), on, ahead) + LOAD(x, now + l);
            }
            STORE(value, out, now + l);
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
