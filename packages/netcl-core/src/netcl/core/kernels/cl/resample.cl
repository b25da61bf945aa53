// Resizing along the middle of three dimensions (before, axis, after): each output is a weighted sum of TAPS neighbours,
// 1 (nearest), 2 (linear) or 4 (cubic convolution, Keys 1981, a = -0.75), whose places are held at the borders.
//
// Output o lies at (step * o + start) / unit of the input: whole numbers, so that every device finds the same neighbours.
// One work-item: `block` rows of the result times a stretch of `width` columns. The gradient gathers: a row of the input
// sums over the outputs that reach it, in order, without atomics.

typedef struct {
    long rows, extent, out, after;
    long step, start, unit;
    long block, width;
} resizing;

typedef struct {
    long first;
    REAL weight[TAPS];
} taps;

static inline long floor_divide(const long a, const long b) { return a / b - (a % b < 0); }

static inline long ceil_divide(const long a, const long b) { return a / b + (a % b > 0); }

static inline taps taps_of(const long o, const resizing* g) {
    const long place = g->step * o + g->start, whole = floor_divide(place, g->unit);
    taps p;
#if TAPS == 1
    p.first = whole;
    p.weight[0] = 1;
#else
    const REAL t = (REAL)(place - whole * g->unit) / (REAL)g->unit;
#if TAPS == 2
    p.first = whole;
    p.weight[0] = 1 - t;
    p.weight[1] = t;
#else
    const REAL a = (REAL)-0.75, u = 1 - t;
    p.first = whole - 1;
    p.weight[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
    p.weight[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    p.weight[2] = ((a + 2) * u - (a + 3)) * u * u + 1;
    p.weight[3] = ((a * (u + 1) - 5 * a) * (u + 1) + 8 * a) * (u + 1) - 4 * a;
#endif
#endif
    return p;
}

#define EACH_ROW \
    const long first = get_global_id(1) * g.block, last = min(g.rows, first + g.block); \
    const long begin = get_global_id(0) * g.width, end = min(g.after, begin + g.width); \
    for (long row = first; row < last; row++)

__kernel void resize(__global const STORAGE* restrict x, __global STORAGE* restrict out, const resizing g) {
    EACH_ROW {
        const taps p = taps_of(row % g.out, &g);
        __global const STORAGE* source = x + row / g.out * g.extent * g.after;
        __global STORAGE* target = out + row * g.after;
        long at[TAPS];
        for (int k = 0; k < TAPS; k++) at[k] = clamp(p.first + k, 0L, g.extent - 1) * g.after;
        for (long c = begin; c < end; c++) {
#if TAPS == 1
            STORE(LOAD(source, at[0] + c), target, c);
#elif TAPS == 2
            STORE(p.weight[0] * LOAD(source, at[0] + c) + p.weight[1] * LOAD(source, at[1] + c), target, c);
#else
            STORE(p.weight[0] * LOAD(source, at[0] + c) + p.weight[1] * LOAD(source, at[1] + c)
                  + p.weight[2] * LOAD(source, at[2] + c) + p.weight[3] * LOAD(source, at[3] + c), target, c);
#endif
        }
    }
}

#define BEFORE (TAPS == 4 ? 1 : 0)

__kernel void resize_gradient(__global const STORAGE* restrict grad, __global STORAGE* restrict out, const resizing g) {
    EACH_ROW {
        const long i = row % g.extent;
        __global const STORAGE* source = grad + row / g.extent * g.out * g.after;
        __global STORAGE* target = out + row * g.after;
        // The outputs one of whose taps is i; the borders are also the taps that lie outside.
        long low = 0, high = g.out;
        if (g.step > 0) {
            if (i > 0) low = max(low, ceil_divide(g.unit * (i + BEFORE + 1 - TAPS) - g.start, g.step));
            if (i < g.extent - 1) high = min(high, ceil_divide(g.unit * (i + BEFORE + 1) - g.start, g.step));
        }
        for (long c = begin; c < end; c++) STORE((REAL)0, target, c);
        for (long o = low; o < high; o++) {
            const taps p = taps_of(o, &g);
            REAL weight = 0;
            for (int k = 0; k < TAPS; k++)
                if (clamp(p.first + k, 0L, g.extent - 1) == i) weight += p.weight[k];
            for (long c = begin; c < end; c++) STORE(LOAD(target, c) + weight * LOAD(source, o * g.after + c), target, c);
        }
    }
}
