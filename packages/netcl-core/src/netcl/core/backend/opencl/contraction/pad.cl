// Copies of images for convolutions; elements of BYTES bytes are moved as bits. One work-item: `block` rows of the result.
//
// pad      pads (or, with negative amounts, crops) the last three dimensions with zeros
// sample   every step-th element of the last three dimensions
// spread   the reverse: zeros between, and behind

#if BYTES == 1
typedef uchar element;
#elif BYTES == 2
typedef ushort element;
#elif BYTES == 4
typedef uint element;
#else
typedef ulong element;
#endif

typedef struct {
    long rows, block, offset;
    long extent[3], padded[3], low[3];
} padding;

__kernel LOOPS void pad(__global const element* restrict x, __global element* restrict out, const padding g) {
    const size_t first = get_global_id(0) * g.block, last = min((size_t)g.rows, (size_t)(first + g.block));
    const long width = g.padded[2];
    const long begin = clamp(g.low[2], 0L, width), end = clamp(g.low[2] + g.extent[2], begin, width);
    for (size_t row = first; row < last; row++) {
        const long y = (long)(row % g.padded[1]) - g.low[1];
        const long z = (long)(row / g.padded[1] % g.padded[0]) - g.low[0];
        const size_t plane = row / g.padded[1] / g.padded[0];
        __global element* target = out + row * width;
        if (y < 0 || y >= g.extent[1] || z < 0 || z >= g.extent[0]) {
            for (long i = 0; i < width; i++) target[i] = 0;
            continue;
        }
        __global const element* line = x + g.offset + ((plane * g.extent[0] + z) * g.extent[1] + y) * g.extent[2] - g.low[2];
        for (long i = 0; i < begin; i++) target[i] = 0;
        for (long i = begin; i < end; i++) target[i] = line[i];
        for (long i = end; i < width; i++) target[i] = 0;
    }
}

typedef struct {
    long rows, block;
    long extent[3], result[3], step[3];  // of x, of the result
} sampling;

__kernel LOOPS void sample(__global const element* restrict x, __global element* restrict out, const sampling g) {
    const size_t first = get_global_id(0) * g.block, last = min((size_t)g.rows, (size_t)(first + g.block));
    const long width = g.result[2], step = g.step[2];
    for (size_t row = first; row < last; row++) {
        const size_t y = row % g.result[1] * g.step[1], z = row / g.result[1] % g.result[0] * g.step[0];
        const size_t plane = row / g.result[1] / g.result[0];
        __global const element* line = x + ((plane * g.extent[0] + z) * g.extent[1] + y) * g.extent[2];
        __global element* target = out + row * width;
        for (long i = 0; i < width; i++) target[i] = line[i * step];
    }
}

__kernel LOOPS void spread(__global const element* restrict x, __global element* restrict out, const sampling g) {
    const size_t first = get_global_id(0) * g.block, last = min((size_t)g.rows, (size_t)(first + g.block));
    const long width = g.result[2], step = g.step[2];
    for (size_t row = first; row < last; row++) {
        const size_t y = row % g.result[1], z = row / g.result[1] % g.result[0], plane = row / g.result[1] / g.result[0];
        const size_t from_y = y / g.step[1], from_z = z / g.step[0];
        __global element* target = out + row * width;
        const bool met = y % g.step[1] == 0 && z % g.step[0] == 0 && from_y < (size_t)g.extent[1] && from_z < (size_t)g.extent[0];
        for (long i = 0; i < width; i++) target[i] = 0;
        if (!met) continue;
        __global const element* line = x + ((plane * g.extent[0] + from_z) * g.extent[1] + from_y) * g.extent[2];
        for (long i = 0; i < g.extent[2]; i++) target[i * step] = line[i];
    }
}
