// channels_input/cpu_float32
#define DTYPE_FLOAT32 1
#define VECTOR 8
#define ROWS 3
#define SPAN 4
#define MOST_TAPS 192
#define MOST_TOGETHER 8
#define OPERANDS 1
#define LOOPS __attribute__((vec_type_hint(float16)))
#ifdef POCL_DEVICE_ADDRESS_BITS
#define SEPARATE __attribute__((noinline))
#else
#define SEPARATE inline
#endif
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
#define A_STORAGE STORAGE
#define A_LOAD(p, i) LOAD(p, i)
#define A_VLOAD(p) VLOAD(p)
#define A_STORE(x, p, i) STORE(x, p, i)
#define A_VSTORE(x, p) VSTORE(x, p)
#define B_STORAGE STORAGE
#define B_LOAD(p, i) LOAD(p, i)
#define B_VLOAD(p) VLOAD(p)
#define B_STORE(x, p, i) STORE(x, p, i)
#define B_VSTORE(x, p) VSTORE(x, p)
#define OUT_STORAGE STORAGE
#define OUT_LOAD(p, i) LOAD(p, i)
#define OUT_VLOAD(p) VLOAD(p)
#define OUT_STORE(x, p, i) STORE(x, p, i)
#define OUT_VSTORE(x, p) VSTORE(x, p)
// Epilogue fusion: a kernel passes its sums through epilogue(sum, operands...) before it stores them. The operands are
// OPERANDS pointers e1, e2, .. and their layouts, at least one. fused_epilogue.py writes the part `epilogue`, the declaration of the
// function, which follows the kernels in the text, or the addition of one operand.

static inline REALV epilogue(const REALV sum, const REALV operand) { return sum + operand; }

typedef struct {
    long offset, row;
    long batch[2];
    long along;  // of a row: 0 the same value, 1 one for each column, 2 as the result
} operand;

// Direct convolution of images with few channels on CPU devices: the common part of contract_channels_forward.cl, _weights
// and _input.
//
// A strip holds the input of some rows of the output, one run for each channel, column of the kernel and row of the kernel
// (rows at a multiple of the stride share one): the image's rows shifted by that column, zeros outside. The input of a
// tap is then one run as long as the rows of the output, and vectors go along it past the ends of rows.
//
// A work-item takes `each` blocks of rows, one after the other, and has `scratch` elements of its own for panels of weights
// or sums, and after `strip` of them for the strip or the gradients of the taps. Work-groups have one work-item.
// Contraction of a*b+c into one rounding is allowed here.

#define COLUMNS (SPAN * VECTOR)
#define EACH(i, count) _Pragma("unroll") for (int i = 0; i < count; i++)
// Without the hint Intel's compiler vectorises across work-items, which takes longer.
#define LOOPING __attribute__((vec_type_hint(REALV)))

typedef struct {
    long channels, filters, taps;
    long height, width, rows, columns;  // of an image, of the output
    long sides[2], stride[2], dilation[2], low[2];
    long block, blocks, each, total;    // rows of a block, blocks of an image, of a work-item, of all images
    long scratch, strip;
    long run;                           // rows of a run, or gradient elements of a tap for a block
    long together, apart;               // blocks with gradients of the weights summed at once, distance of strips
    long finished;
    operand operands[OPERANDS];
} images;

// Images of half types that are one block are converted as a whole into `copies`: their rows are short.
#ifdef COPIED
#define IMAGE REAL
#define IMAGE_LOAD(p, i) p[i]
#define IMAGE_VLOAD(p) GLOAD(p)
#define IMAGE_OF(x, size) copied(x, copies + get_global_id(0) * (size), size)

static inline __global const REAL* copied(__global const STORAGE* x, __global REAL* to, const long size) {
    long i = 0;
    for (; i + VECTOR <= size; i += VECTOR) GSTORE(VLOAD(x + i), to + i);
    for (; i < size; i++) to[i] = LOAD(x, i);
    return to;
}
#else
#define IMAGE STORAGE
#define IMAGE_LOAD(p, i) LOAD(p, i)
#define IMAGE_VLOAD(p) VLOAD(p)
#define IMAGE_OF(x, size) (x)
#endif

static inline void zero(__global REAL* to, const long count) {
    for (long i = 0; i < count; i++) to[i] = 0;
}

// The strip of `rows` rows of the output from `first` on.
static SEPARATE void fill_strip(__global const IMAGE* image, __global REAL* strip, const long first, const long rows, const images* g) {
    const long step = g->stride[1], met = rows + (g->sides[0] - 1) * g->dilation[0] / g->stride[0];
    for (long phase = 0; phase < g->stride[0]; phase++) {
        bool used = false;
        for (long i = 0; i < g->sides[0]; i++) used = used || i * g->dilation[0] % g->stride[0] == phase;
        if (!used) continue;
        for (long column = 0; column < g->channels * g->sides[1]; column++) {
            const long channel = column / g->sides[1], shift = column % g->sides[1] * g->dilation[1] - g->low[1];
            // Between `begin` and `end` the run is inside the image.
            const long beyond = g->width - shift;
            const long begin = min(g->columns, shift < 0 ? (step - 1 - shift) / step : 0);
            const long end = clamp(beyond > 0 ? (beyond - 1) / step + 1 : 0, begin, g->columns);
            __global REAL* to = strip + (column * g->stride[0] + phase) * g->run * g->columns;
            for (long i = 0; i < met; i++, to += g->columns) {
                const long row = (first + i) * g->stride[0] + phase - g->low[0];
                if (row < 0 || row >= g->height) {
                    zero(to, g->columns);
                    continue;
                }
                __global const IMAGE* from = image + (channel * g->height + row) * g->width + shift;
                zero(to, begin);
                zero(to + end, g->columns - end);
                long x = begin;
                if (step == 1 && end - begin >= VECTOR) {
                    for (; x <= end - VECTOR; x += VECTOR) GSTORE(IMAGE_VLOAD(from + x), to + x);
                    GSTORE(IMAGE_VLOAD(from + end - VECTOR), to + end - VECTOR);
                    continue;
                }
                if (step == 2)
                    for (; x < end - VECTOR; x += VECTOR) {
                        const REALV left = IMAGE_VLOAD(from + 2 * x), right = IMAGE_VLOAD(from + 2 * x + VECTOR);
                        GSTORE((REALV)(left.even, right.even), to + x);
                    }
                for (; x < end; x++) to[x] = IMAGE_LOAD(from, x * step);
            }
        }
    }
}

// The offsets of the taps' runs in the strip.
static inline void find_runs(long* runs, const images* g) {
    for (long t = 0; t < g->taps; t++) {
        const long j = t % g->sides[1], i = t / g->sides[1] % g->sides[0] * g->dilation[0], c = t / g->sides[1] / g->sides[0];
        const long run = (c * g->sides[1] + j) * g->stride[0] + i % g->stride[0];
        runs[t] = (run * g->run + i / g->stride[0]) * g->columns;
    }
}

// Gradient of images with few channels, on CPU devices (see contract_channels.cl): the gradient of each tap, ROWS taps x SPAN
// vectors of a matrix product of the weights with the output's gradient in place; then each row of the image sums the
// gradients of its taps. Before these gradients are the weights in panels, [tile of taps][filter][ROWS].

#define RUN 64  // products that are summed before they are added to the total: reduces the rounding error of long sums

__kernel LOOPING void channels_input(
    __global const STORAGE *restrict grad,
    __global const A_STORAGE *restrict weight,
    __global STORAGE *restrict out,
    __global REAL *restrict scratch,
    const images geometry) {
    const images g = geometry;
    const long plane = g.rows * g.columns, first = get_global_id(0) * g.each, last = min(g.total, first + g.each);
    const long tiles = (g.taps + ROWS - 1) / ROWS, over = (g.sides[0] - 1) * g.dilation[0];
    const long length = max(g.low[1] + g.width, (g.columns - 1) * g.stride[1] + (g.sides[1] - 1) * g.dilation[1] + 1);
    scratch += get_global_id(0) * g.scratch;
    zero(scratch, g.strip);
    for (long f = 0; f < g.filters; f++)
        for (long t = 0; t < g.taps; t++) scratch[(t / ROWS * g.filters + f) * ROWS + t % ROWS] = A_LOAD(weight, f * g.taps + t);
    __global REAL* given = scratch + g.strip;
    __global REAL* line = given + tiles * ROWS * g.run;
    for (long block = first; block < last; block++) {
        const long image = block / g.blocks, top = block % g.blocks * g.block, bottom = min(g.height, top + g.block);
        // The rows of the output that read these of the image; the last vectors of an image begin so that they still fit.
        const long above = max(0L, top + g.low[0] - over + g.stride[0] - 1) / g.stride[0];
        const long below = min(g.rows, (bottom - 1 + g.low[0]) / g.stride[0] + 1);
        const long begin = min(above * g.columns, plane - COLUMNS), end = below * g.columns;
        for (long at = begin; at < end; at += COLUMNS) {
            const long position = min(at, plane - COLUMNS);
            for (long tile = 0; tile < tiles; tile++)
                for (long start = 0; start < g.filters; start += RUN) {
                    REALV sums[ROWS][SPAN];
                    EACH(r, ROWS) EACH(v, SPAN) sums[r][v] = 0;
                    __global const STORAGE* from = grad + (image * g.filters + start) * plane + position;
                    __global const REAL* panel = scratch + (tile * g.filters + start) * ROWS;
                    const long stop = min((long)RUN, g.filters - start);
                    for (long f = 0; f < stop; f++, from += plane, panel += ROWS) {
                        REALV values[SPAN];
                        EACH(v, SPAN) values[v] = VLOAD(from + v * VECTOR);
                        EACH(r, ROWS) {
                            const REAL w = panel[r];
                            EACH(v, SPAN) sums[r][v] += w * values[v];
                        }
                    }
                    EACH(r, ROWS) EACH(v, SPAN) {
                        __global REAL* to = given + (tile * ROWS + r) * g.run + position - begin + v * VECTOR;
                        GSTORE(start ? GLOAD(to) + sums[r][v] : sums[r][v], to);
                    }
                }
        }
        for (long c = 0; c < g.channels; c++)
            for (long y = top; y < bottom; y++) {
                zero(line, length);
                for (long tap = 0; tap < g.sides[0] * g.sides[1]; tap++) {
                    const long row = y + g.low[0] - tap / g.sides[1] * g.dilation[0];
                    if (row < 0 || row % g.stride[0] || row / g.stride[0] >= g.rows) continue;
                    __global const REAL* from = given + (c * g.sides[0] * g.sides[1] + tap) * g.run + row / g.stride[0] * g.columns - begin;
                    __global REAL* to = line + tap % g.sides[1] * g.dilation[1];
                    long at = 0;
                    if (g.stride[1] == 1)
                        for (; at + VECTOR <= g.columns; at += VECTOR) GSTORE(GLOAD(to + at) + GLOAD(from + at), to + at);
                    for (; at < g.columns; at++) to[at * g.stride[1]] += from[at];
                }
                __global STORAGE* to = out + ((image * g.channels + c) * g.height + y) * g.width;
                long at = 0;
                for (; at + VECTOR <= g.width; at += VECTOR) VSTORE(GLOAD(line + g.low[1] + at), to + at);
                for (; at < g.width; at++) STORE(line[g.low[1] + at], to, at);
            }
    }
}
