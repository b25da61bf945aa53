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

