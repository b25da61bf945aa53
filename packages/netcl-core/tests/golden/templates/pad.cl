// pad/pad_uint8
#pragma OPENCL FP_CONTRACT OFF
#define BYTES 1
#define LOOPS __attribute__((vec_type_hint(float16)))
// Elements that are moved as bits of BYTES bytes.

#if BYTES == 1
typedef uchar element;
#elif BYTES == 2
typedef ushort element;
#elif BYTES == 4
typedef uint element;
#elif BYTES == 16
typedef uint4 element;
#else
typedef ulong element;
#endif
// Quotients of 32 bits by multiplication (Granlund and Montgomery 1994): of n below 2^31 by a divisor, with the magic
// number and shift computed on the host.

static inline uint quotient_by(const uint n, const uint magic, const uint shift) { return (mul_hi(n, magic) + n) >> shift; }

// A number with its magic number and shift.
typedef struct { long size, magic, shift; } divisor;

static inline int quotient(const int n, const divisor by) { return (int)quotient_by(n, by.magic, by.shift); }
// Copies of images for convolutions: the common part of pad_pad.cl, pad_sample.cl and pad_spread.cl. Elements of BYTES
// bytes are moved as bits. One work-item: `block` rows of the result, or (EACH, on devices with many cores) EACH elements
// of it, at positions of 32 bits, with divisions by multiplication.

typedef struct {
    long rows, block, offset;
    long extent[3], padded[3], low[3];
} padding;

typedef struct {
    long rows, block;
    long extent[3], result[3], step[3];  // of x, of the result
} sampling;

// The same with EACH, for `count` elements.
typedef struct {
    long count, offset, extent[3], low[3];
    divisor padded[3];
} padding_each;

typedef struct {
    long count, extent[3];
    divisor result[3], step[3];
} sampling_each;
#define EACH_ELEMENT \
    for (int turn = 0, at = get_group_id(0) * get_local_size(0) * EACH + get_local_id(0); turn < EACH; turn++, at += get_local_size(0))
// Pads (or, with negative amounts, crops) the last three dimensions with zeros; with WIDENED into the computing type.
#ifdef WIDENED
typedef STORAGE element;
typedef REAL padded_element;
#define TAKEN(p, i) LOAD(p, i)
#else
typedef element padded_element;
#define TAKEN(p, i) p[i]
#endif

#define NARROW 16  // elements of a row that is shorter than a few vectors

__kernel LOOPS void pad(
    __global const element *restrict x,
    __global padded_element *restrict out,
    const padding g) {
    const size_t first = get_global_id(0) * g.block, last = min((size_t)g.rows, (size_t)(first + g.block));
    const long width = g.padded[2];
    const long begin = clamp(g.low[2], 0L, width), end = clamp(g.low[2] + g.extent[2], begin, width);
    const bool narrow = width <= NARROW;
    if (narrow)  // the zeros of all rows at once
        for (size_t i = first * width; i < last * width; i++) out[i] = 0;
    long y = (long)(first % g.padded[1]) - g.low[1], z = (long)(first / g.padded[1] % g.padded[0]) - g.low[0];
    size_t plane = first / g.padded[1] / g.padded[0];
    for (size_t row = first; row < last; row++, y++) {
        if (y == g.padded[1] - g.low[1]) {
            y = -g.low[1];
            if (++z == g.padded[0] - g.low[0]) {
                z = -g.low[0];
                plane++;
            }
        }
        __global padded_element* target = out + row * width;
        const bool zero = y < 0 || y >= g.extent[1] || z < 0 || z >= g.extent[0];
        __global const element* line = x + g.offset + ((plane * g.extent[0] + z) * g.extent[1] + y) * g.extent[2] - g.low[2];
        if (narrow) {
            if (zero) continue;
            long i = begin;
            for (; i + 4 <= end; i += 4) {
                target[i] = TAKEN(line, i);
                target[i + 1] = TAKEN(line, i + 1);
                target[i + 2] = TAKEN(line, i + 2);
                target[i + 3] = TAKEN(line, i + 3);
            }
            for (; i < end; i++) target[i] = TAKEN(line, i);
            continue;
        }
        if (zero) {
            for (long i = 0; i < width; i++) target[i] = 0;
            continue;
        }
        for (long i = 0; i < begin; i++) target[i] = 0;
        for (long i = begin; i < end; i++) target[i] = TAKEN(line, i);
        for (long i = end; i < width; i++) target[i] = 0;
    }
}
