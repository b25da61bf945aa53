// channels_forward/cpu_float32
#define DTYPE_FLOAT32 1
#define VECTOR 8
#define ROWS 8
#define SPAN 1
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

// Convolution of images with few channels, on CPU devices (see contract_channels.cl): the sums of all taps for ROWS filters x
// SPAN vectors of the output, from the strip, through epilogue(sum, operands...) if requested. Before the strip are the
// weights in panels, [tile of filters][tap][ROWS], and the sums of a tile that wait for the epilogue or end a block.

// `count` values of an operand from offset `at` of the result on; values past the end repeat the last.
static inline REALV operand_vector(__global const STORAGE* e, const operand o, const long filter, const long at, const long count) {
    e += o.offset;
    if (o.along == 0) return (REALV)(LOAD(e, filter * o.row));
    if (count >= VECTOR) return VLOAD(e + at);
    REAL lanes[VECTOR];
    for (int i = 0; i < VECTOR; i++) lanes[i] = LOAD(e, at + min((long)i, count - 1));
    return RLOAD(lanes);
}

__kernel LOOPING void channels_forward(
    __global const STORAGE *restrict x,
    __global const A_STORAGE *restrict weight,
    __global STORAGE *restrict out,
    __global REAL *restrict scratch,
    const images geometry,
    __global const STORAGE *restrict e1) {
    const images g = geometry;
    const long plane = g.rows * g.columns, first = get_global_id(0) * g.each, last = min(g.total, first + g.each);
    scratch += get_global_id(0) * g.scratch;
    zero(scratch, g.scratch);
    for (long f = 0; f < g.filters; f++)
        for (long t = 0; t < g.taps; t++) scratch[(f / ROWS * g.taps + t) * ROWS + f % ROWS] = A_LOAD(weight, f * g.taps + t);
    __global REAL* strip = scratch + g.strip;
    __global REAL* waiting = strip - ROWS * COLUMNS;
    long runs[MOST_TAPS];
    find_runs(runs, &g);
    for (long block = first; block < last; block++) {
        const long image = block / g.blocks, row = block % g.blocks * g.block, rows = min(g.block, g.rows - row);
        const long count = rows * g.columns;
        const long size = g.channels * g.height * g.width;
        fill_strip(IMAGE_OF(x + image * size, size), strip, row, rows, &geometry);
        for (long f = 0; f < g.filters; f += ROWS)
            for (long at = 0; at < count; at += COLUMNS) {
                REALV sums[ROWS][SPAN];
                EACH(r, ROWS) EACH(v, SPAN) sums[r][v] = 0;
                __global const REAL* panel = scratch + f * g.taps;
                for (long t = 0; t < g.taps; t++, panel += ROWS) {
                    REALV values[SPAN];
                    EACH(v, SPAN) values[v] = GLOAD(strip + runs[t] + at + v * VECTOR);
                    EACH(r, ROWS) {
                        const REAL w = panel[r];
                        EACH(v, SPAN) sums[r][v] += w * values[v];
                    }
                }
                const long start = (image * g.filters + f) * plane + row * g.columns + at;
                if (!g.finished && at + COLUMNS <= count) {
                    EACH(r, ROWS)
                        if (f + r < g.filters)
                            EACH(v, SPAN) VSTORE(sums[r][v], out + start + r * plane + v * VECTOR);
                    continue;
                }
                EACH(r, ROWS) EACH(v, SPAN) GSTORE(sums[r][v], waiting + (r * SPAN + v) * VECTOR);
                for (long filter = f; filter < min(g.filters, f + ROWS); filter++)
                    for (long v = 0; v < SPAN && at + v * VECTOR < count; v++) {
                        const long start_of_vector = start + (filter - f) * plane + v * VECTOR, left = count - at - v * VECTOR;
                        REALV sum = GLOAD(waiting + ((filter - f) * SPAN + v) * VECTOR);
                        if (g.finished) sum = epilogue(sum, operand_vector(e1, g.operands[0], filter, start_of_vector, left));
                        if (left >= VECTOR) {
                            VSTORE(sum, out + start_of_vector);
                            continue;
                        }
                        REAL lanes[VECTOR];
                        RSTORE(sum, lanes);
                        for (long i = 0; i < left; i++) STORE(lanes[i], out, start_of_vector + i);
                    }
            }
    }
}
