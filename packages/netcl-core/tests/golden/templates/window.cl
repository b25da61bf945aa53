// window/window_max_inside_cpu_float32
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define VECTOR 8
#define PLACE long
#define DIVIDED ulong
#define INTV int8
#define ILOAD(p) vload8(0, p)
#define ISTORE(x, p) vstore8(x, 0, p)
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
#define REALV float8
typedef float8 __attribute__((aligned(4))) PACKED;
#define GLOAD(p) (*(__global const PACKED*)(p))
#define GSTORE(x, p) (*(__global PACKED*)(p) = (x))
#define RLOAD(p) vload8(0, (p))
#define RSTORE(x, p) vstore8((x), 0, (p))
#define VLOAD(p) GLOAD(p)
#define VSTORE(x, p) GSTORE((x), (p))
#define RAW float
#define RAWV float8
#define WIDEN(v) (v)
#define NARROW(x) (x)
#define RAW_LOAD(p, i) ((p)[i])
#define RAW_STORE(x, p, i) ((p)[i] = (x))
#define GATHER(p, from) WIDEN((RAWV)(RAW_LOAD(p, (from)[0]), RAW_LOAD(p, (from)[1]), RAW_LOAD(p, (from)[2]), RAW_LOAD(p, (from)[3]), RAW_LOAD(p, (from)[4]), RAW_LOAD(p, (from)[5]), RAW_LOAD(p, (from)[6]), RAW_LOAD(p, (from)[7])))
// Sliding windows over the last three dimensions: types, functions and macros of the kernels in window_*.cl.
//
// One work-item: `block` rows (of the output going forward, of the input in gradients), or with SINGLE one element, so that accesses
// of GPUs are coalesced. Gradients gather: each position of the input sums over the windows that hold it, in order, so nothing is
// written twice and no atomics are needed.
//
// A stride of 0 cuts the extent into sections (adaptive pooling): window o is floor(o * extent / out) to
// ceil((o + 1) * extent / out).

typedef PLACE place;  // int if all positions fit, for divisions in 32 bits; DIVIDED is without a sign

typedef struct {
    place rows, block, channels, count_include_pad, divisor;
    place extent[3], out[3], taps[3], stride[3], dilation[3], low[3], high[3];
} window;

typedef struct { place first, last; } span;

// a / b of numbers that are not negative; often b is one, in every work-item.
#define OVER(a, b) ((b) == 1 ? (a) : (place)((DIVIDED)(a) / (DIVIDED)(b)))

static inline place up(const place a, const place b) { return OVER(a + b - 1, b); }

// The taps of the window at `start` that are inside 0 .. extent.
static inline span taps_inside(const place start, const place count, const place dilation, const place extent) {
    span s;
    if (start >= 0 && start + (count - 1) * dilation < extent) {  // spares the divisions
        s.first = 0;
        s.last = count;
        return s;
    }
    s.first = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
    s.last = start >= extent ? 0 : min(count, (extent - start + dilation - 1) / dilation);
    return s;
}

// The first position of window o (start_of), its length (section) and its taps inside the extent (taps_of).
static inline place start_of(const place o, const int d, const window* g) {
    return g->stride[d] ? o * g->stride[d] - g->low[d] : o * g->extent[d] / g->out[d];
}

static inline place section(const place o, const int d, const window* g) {
    return up((o + 1) * g->extent[d], g->out[d]) - o * g->extent[d] / g->out[d];
}

static inline span taps_of(const place o, const int d, const window* g) {
    if (g->stride[d]) return taps_inside(o * g->stride[d] - g->low[d], g->taps[d], g->dilation[d], g->extent[d]);
    span s;
    s.first = 0;
    s.last = section(o, d, g);
    return s;
}

// The windows that contain the (padded) position.
static inline span windows_holding(const place padded, const int d, const window* g) {
    if (!g->stride[d]) {
        span s;
        s.first = padded * g->out[d] / g->extent[d];
        s.last = up((padded + 1) * g->out[d], g->extent[d]);
        return s;
    }
    const place reach = padded - (g->taps[d] - 1) * g->dilation[d];
    span s;
    s.first = reach <= 0 ? 0 : up(reach, g->stride[d]);
    s.last = min(OVER(padded, g->stride[d]) + 1, g->out[d]);
    return s;
}

// The same for the next position, from the span of the one before.
static inline span next_windows(span s, const place padded, const int d, const window* g) {
    if (s.first * g->stride[d] + (g->taps[d] - 1) * g->dilation[d] < padded) s.first++;
    if (s.last < g->out[d] && s.last * g->stride[d] <= padded) s.last++;
    return s;
}

// The number of elements along one dimension by which an average divides.
static inline place counted(const place o, const int d, const window* g) {
    if (!g->stride[d]) return section(o, d, g);
    const place start = o * g->stride[d] - g->low[d];
    if (start >= 0 && start + (g->taps[d] - 1) * g->dilation[d] < g->extent[d]) return g->taps[d];
    if (g->count_include_pad)
        return min(g->taps[d], (g->extent[d] + g->high[d] - start + g->dilation[d] - 1) / g->dilation[d]);
    const span s = taps_inside(start, g->taps[d], g->dilation[d], g->extent[d]);
    return max(s.last - s.first, (place)0);
}

// Programs of GPUs know the taps, the strides, the dilation and the padding (FIXED sets them), so that loops over taps are
// unrolled and divisions by these numbers are multiplications.
#ifdef FIXED
#define GIVEN given
#define GEOMETRY window g = given; FIXED
#define EACH_TAP(K, SPAN, D) for (place K = 0; K < g.taps[D]; K++) if (K >= (SPAN).first && K < (SPAN).last)
#else
#define GIVEN g
#define GEOMETRY
#define EACH_TAP(K, SPAN, D) for (place K = (SPAN).first; K < (SPAN).last; K++)
#endif

// Rows, and of each the positions `begin` to `end`.
#ifdef SINGLE
#define EACH_ROW(WIDTH) \
    const place item = get_global_id(0); \
    if (item >= g.rows * (WIDTH)) return; \
    const place row = OVER(item, WIDTH), begin = item - row * (WIDTH), end = begin + 1;
#else
#define EACH_ROW(WIDTH) \
    const place first_row = get_global_id(0) * g.block, last_row = min(g.rows, first_row + g.block), begin = 0, end = WIDTH; \
    for (place row = first_row; row < last_row; row++)
#endif

#define ROW_PLACE(SIZE) \
    const place sheet = OVER(row, SIZE[1]), py = row - sheet * SIZE[1]; \
    const place plane = OVER(sheet, SIZE[0]), pz = sheet - plane * SIZE[0]

// Windows that are inside along the last dimension are computed LANES at a time, one tap after the other, so that the
// compiler can use vectors. STEP is the stride there: a number if separate loops are worth it.
#ifdef SINGLE
#define LANES 1
#else
#define LANES 16
#endif

static inline span windows_inside(const window* g) {
    span s = {0, 0};
    if (!g->stride[2]) return s;
    const place reach = (g->taps[2] - 1) * g->dilation[2], room = g->extent[2] - 1 - reach + g->low[2];
    s.last = room < 0 ? 0 : min(g->out[2], room / g->stride[2] + 1);
    s.first = g->low[2] <= 0 ? 0 : min(s.last, (g->low[2] + g->stride[2] - 1) / g->stride[2]);
    return s;
}

// The first tap of a row of taps in a plane.
#define TAP_LINE(kz, ky) (((z0 + (kz) * g.dilation[0]) * g.extent[1] + y0 + (ky) * g.dilation[1]) * g.extent[2] + x0)

// Gradients of pooling: a row of the input is summed in pieces of PIECE positions, each over the windows that reach it.
#ifdef SINGLE
#define PIECE 1
#else
#define PIECE 128
#endif

#define EACH_PIECE \
    for (place piece = begin; piece < end; piece += PIECE)

#define PIECE_WINDOWS \
    const place width = min((place)PIECE, end - piece); \
    const place first = windows_holding(piece + g.low[2], 2, &g).first; \
    const place last = windows_holding(piece + width - 1 + g.low[2], 2, &g).last; \
    REAL sums[PIECE]; \
    for (place i = 0; i < width; i++) sums[i] = 0

// True if a tap of window o, which reaches the padded position, is at it.
static inline bool meets(const place padded, const place o, const int d, const window* g) {
    return g->dilation[d] == 1 || (padded - o * g->stride[d]) % g->dilation[d] == 0;
}
// Max pooling on CPUs of windows that are inside of the images: vectors of adjacent results, possibly of different
// rows.

__kernel LOOPS void max_forward(
    __global const STORAGE *restrict x,
    __global STORAGE *restrict out,
    __global int *restrict indices,
    const window g) {
    const long begin = get_global_id(0) * g.block, end = min(g.rows, begin + g.block) * g.out[2];
    const long plane = g.extent[0] * g.extent[1] * g.extent[2], line = g.extent[2];
    // The result that comes next: its place in its plane, and where the first tap of its row is.
    long px = 0, py = begin % g.out[1], pz = begin / g.out[1] % g.out[0];
    long image = begin / g.out[1] / g.out[0] * plane;
    for (long at = begin * g.out[2]; at < end; at += VECTOR) {
        const int count = min((long)VECTOR, end - at);
        long from[VECTOR];
        int first[VECTOR];
        for (int i = 0; i < VECTOR; i++) {
            const int tap = (int)((pz * g.stride[0] * g.extent[1] + py * g.stride[1]) * line + px * g.stride[2]);
            from[i] = image + tap;
            first[i] = tap;
            if (i >= count - 1 || ++px < g.out[2]) continue;
            px = 0;
            if (++py < g.out[1]) continue;
            py = 0;
            if (++pz < g.out[0]) continue;
            pz = 0;
            image += plane;
        }
        // The next result follows this one; past the end lanes repeat the last.
        if (count == VECTOR && ++px == g.out[2]) {
            px = 0;
            if (++py == g.out[1]) {
                py = 0;
                if (++pz == g.out[0]) {
                    pz = 0;
                    image += plane;
                }
            }
        }
        // A NaN wins, the first one stays; so does the first of equals.
        const INTV start = ILOAD(first);
        INTV best_at = start;
        REALV best = GATHER(x, from);
        for (long kz = 0; kz < g.taps[0]; kz++)
            for (long ky = 0; ky < g.taps[1]; ky++)
                for (long kx = kz || ky ? 0 : 1; kx < g.taps[2]; kx++) {
                    const long offset = (kz * g.dilation[0] * g.extent[1] + ky * g.dilation[1]) * line + kx * g.dilation[2];
                    const REALV value = GATHER(x + offset, from);
                    const INTV better = (value > best) | ((value != value) & (best == best));
                    best = better ? value : best;
                    best_at = better ? start + (int)offset : best_at;
                }
        if (count == VECTOR) {
            VSTORE(best, out + at);
            ISTORE(best_at, indices + at);
            continue;
        }
        REAL values[VECTOR];
        int places[VECTOR];
        RSTORE(best, values);
        ISTORE(best_at, places);
        for (int i = 0; i < count; i++) {
            STORE(values[i], out, at + i);
            indices[at + i] = places[i];
        }
    }
}
