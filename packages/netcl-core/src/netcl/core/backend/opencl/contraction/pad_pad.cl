// Pads (or, with negative amounts, crops) the last three dimensions with zeros.
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
