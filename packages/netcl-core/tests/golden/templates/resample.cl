// resample/float32_1
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define TAPS 1
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// Resizing along the middle of three dimensions (before, axis, after): each output is a weighted sum of TAPS neighbours,
// 1 (nearest), 2 (linear) or 4 (cubic convolution, Keys 1981, a = -0.75), whose positions are held at the borders.
//
// Output o is at (step * o + start) / unit of the input: whole numbers, so that every device finds the same neighbours.
// One work-item: blocks of both outer dimensions of the result times a stretch of `width` columns. Neighbours and weights
// of a position along the axis are worked out once and serve a few lines of `before`. The gradient gathers: a position of the
// input sums over the outputs that reach it, in order, without atomics.

typedef struct {
    long before, extent, out, after;
    long step, start, unit;
    long lines, block, width;
} resizing;

typedef struct {
    long first;
    REAL weight[TAPS];
} taps;

static inline long floor_divide(const long a, const long b) { return a / b - (a % b < 0); }

static inline long ceil_divide(const long a, const long b) { return a / b + (a % b > 0); }

static inline taps taps_of(const long o, const resizing* g) {
    const long position = g->step * o + g->start, whole = floor_divide(position, g->unit);
    taps p;
#if TAPS == 1
    p.first = whole;
    p.weight[0] = 1;
#else
    const REAL t = (REAL)(position - whole * g->unit) / (REAL)g->unit;
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

#define LINES 32  // of one element each: as many as stay in the cache
#define BEFORE (TAPS == 4 ? 1 : 0)

// With a `block` of 0, a work-item computes one element; neighbours are adjacent, for coalesced access on GPUs.
#define RANGES(SIZE) \
    const bool alone = g.block == 0; \
    const size_t item = get_global_id(0), plane = (SIZE) * g.after, within = item % plane; \
    const long begin = alone ? within % g.after : item * g.width, end = min(g.after, begin + (alone ? 1 : g.width)); \
    const long first_line = alone ? item / plane : get_global_id(1) * g.lines; \
    const long last_line = min(g.before, first_line + (alone ? 1 : g.lines)); \
    const long first = alone ? within / g.after : get_global_id(2) * g.block; \
    const long last = min((SIZE), first + (alone ? 1 : g.block)); \
    const long together = g.after == 1 ? LINES : 1

#define EACH_STRETCH \
    for (long line = first_line; line < last_line; line += together)

// BODY for all columns of a few lines: `from` and `to` are their offsets in the operand and in the result.
#define EACH_PLACE(OPERAND, RESULT, BODY) \
    if (g.after == 1) { \
        for (long b = line; b < min(last_line, line + together); b++) { \
            const size_t from = b * (OPERAND), to = b * (RESULT); \
            BODY; \
        } \
    } else { \
        const size_t from_line = line * (OPERAND) * g.after, to_line = line * (RESULT) * g.after; \
        for (long c = begin; c < end; c++) { \
            const size_t from = from_line + c, to = to_line + c; \
            BODY; \
        } \
    }

__kernel void resize(__global const STORAGE* restrict x, __global STORAGE* restrict out, const resizing g) {
    RANGES(g.out);
    EACH_STRETCH for (long o = first; o < last; o++) {
        const taps p = taps_of(o, &g);
        long at[TAPS];
        for (int k = 0; k < TAPS; k++) at[k] = clamp(p.first + k, 0L, g.extent - 1) * g.after;
        const size_t target = o * g.after;
#if TAPS == 1
        EACH_PLACE(g.extent, g.out, STORE(LOAD(x, from + at[0]), out, to + target))
#elif TAPS == 2
        EACH_PLACE(g.extent, g.out,
                   STORE(p.weight[0] * LOAD(x, from + at[0]) + p.weight[1] * LOAD(x, from + at[1]), out, to + target))
#else
        EACH_PLACE(g.extent, g.out,
                   STORE(p.weight[0] * LOAD(x, from + at[0]) + p.weight[1] * LOAD(x, from + at[1])
                         + p.weight[2] * LOAD(x, from + at[2]) + p.weight[3] * LOAD(x, from + at[3]), out, to + target))
#endif
    }
}

__kernel void resize_gradient(__global const STORAGE* restrict grad, __global STORAGE* restrict out, const resizing g) {
    RANGES(g.extent);
    EACH_STRETCH for (long i = first; i < last; i++) {
        // The outputs one of whose taps is i; the borders are also the taps outside.
        long low = 0, high = g.out;
        if (g.step > 0) {
            if (i > 0) low = max(low, ceil_divide(g.unit * (i + BEFORE + 1 - TAPS) - g.start, g.step));
            if (i < g.extent - 1) high = min(high, ceil_divide(g.unit * (i + BEFORE + 1) - g.start, g.step));
        }
        const size_t target = i * g.after;
        EACH_PLACE(g.out, g.extent, STORE((REAL)0, out, to + target))
        for (long o = low; o < high; o++) {
            const taps p = taps_of(o, &g);
            REAL weight = 0;
            for (int k = 0; k < TAPS; k++)
                if (clamp(p.first + k, 0L, g.extent - 1) == i) weight += p.weight[k];
            const size_t source = o * g.after;
            EACH_PLACE(g.out, g.extent, STORE(LOAD(out, to + target) + weight * LOAD(grad, from + source), out, to + target))
        }
    }
}
