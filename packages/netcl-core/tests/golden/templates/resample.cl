// resample/float32_1
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define TAPS 1
#define PLACE long
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// Resizing along the middle of three dimensions (before, axis, after): each output is a weighted sum of TAPS neighbours,
// 1 (nearest), 2 (linear) or 4 (cubic convolution, Keys 1981, a = -0.75) with positions held at the borders.
//
// Output o is at (step * o + start) / unit of the input: whole numbers, so that every device finds the same neighbours.
// One work-item: blocks of both outer dimensions of the result times a stretch of `width` columns. Neighbours and weights
// of a position along the axis are worked out once and serve a few lines of `before`. The gradient gathers: a position of the
// input sums over the outputs that reach it, in order, without atomics.

typedef PLACE place;  // int if all products of positions fit, for divisions in 32 bits

typedef struct {
    place before, extent, out, after;
    place step, start, unit;
    place lines, block, width;
} resizing;

typedef struct {
    place first;
    REAL weight[TAPS];
} taps;

static inline place floor_divide(const place a, const place b) { return a / b - (a % b < 0); }

static inline place ceil_divide(const place a, const place b) { return a / b + (a % b > 0); }

static inline taps taps_of(const place o, const resizing* g) {
    const place position = g->step * o + g->start, whole = floor_divide(position, g->unit);
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

// With SINGLE a work-item computes one element; neighbours are adjacent, for coalesced access on GPUs.
#ifdef SINGLE
#define RANGES(SIZE) \
    const place item = get_global_id(0), plane = (SIZE) * g.after, within = item % plane, line = item / plane; \
    if (line >= g.before) return; \
    const place begin = within % g.after, end = begin + 1, first = within / g.after, last = first + 1;
#define EACH_STRETCH
#else
#define RANGES(SIZE) \
    const place begin = get_global_id(0) * g.width, end = min(g.after, begin + g.width); \
    const place first_line = get_global_id(1) * g.lines, last_line = min(g.before, first_line + g.lines); \
    const place first = get_global_id(2) * g.block, last = min((SIZE), first + g.block); \
    const place together = g.after == 1 ? LINES : 1

#define EACH_STRETCH \
    for (place line = first_line; line < last_line; line += together)
#endif

// BODY for all columns of a few lines: `from` and `to` are their offsets in the operand and in the result.
#ifdef SINGLE
#define EACH_PLACE(OPERAND, RESULT, BODY) { \
        const place from = line * (OPERAND) * g.after + begin, to = line * (RESULT) * g.after + begin; \
        BODY; \
    }
#else
#define EACH_PLACE(OPERAND, RESULT, BODY) \
    if (g.after == 1) { \
        for (place b = line; b < min(last_line, line + together); b++) { \
            const place from = b * (OPERAND), to = b * (RESULT); \
            BODY; \
        } \
    } else { \
        const place from_line = line * (OPERAND) * g.after, to_line = line * (RESULT) * g.after; \
        for (place c = begin; c < end; c++) { \
            const place from = from_line + c, to = to_line + c; \
            BODY; \
        } \
    }
#endif

__kernel void resize(
    __global const STORAGE *restrict x,
    __global STORAGE *restrict out,
    const resizing g) {
    RANGES(g.out);
    EACH_STRETCH for (place o = first; o < last; o++) {
        const taps p = taps_of(o, &g);
        place at[TAPS];
        for (int k = 0; k < TAPS; k++) at[k] = clamp(p.first + k, (place)0, g.extent - 1) * g.after;
        const place target = o * g.after;
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

__kernel void resize_gradient(
    __global const STORAGE *restrict grad,
    __global STORAGE *restrict out,
    const resizing g) {
    RANGES(g.extent);
    EACH_STRETCH for (place i = first; i < last; i++) {
        // The outputs with i among their taps; the borders are also the taps outside.
        place low = 0, high = g.out;
        if (g.step > 0) {
            if (i > 0) low = max(low, ceil_divide(g.unit * (i + BEFORE + 1 - TAPS) - g.start, g.step));
            if (i < g.extent - 1) high = min(high, ceil_divide(g.unit * (i + BEFORE + 1) - g.start, g.step));
        }
        const place target = i * g.after;
#ifdef SINGLE
        REAL sum = 0;
#define ADD(to, what) sum += what
#else
#define ADD(to, what) STORE(LOAD(out, to) + what, out, to)
        EACH_PLACE(g.out, g.extent, STORE((REAL)0, out, to + target))
#endif
        for (place o = low; o < high; o++) {
            const taps p = taps_of(o, &g);
            REAL weight = 0;
            for (int k = 0; k < TAPS; k++)
                if (clamp(p.first + k, (place)0, g.extent - 1) == i) weight += p.weight[k];
            const place source = o * g.after;
            EACH_PLACE(g.out, g.extent, ADD(to + target, weight * LOAD(grad, from + source)))
        }
#ifdef SINGLE
        EACH_PLACE(g.out, g.extent, STORE(sum, out, to + target))
#endif
    }
}
