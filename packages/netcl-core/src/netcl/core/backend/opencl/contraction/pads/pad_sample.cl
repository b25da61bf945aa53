// Every step-th element of the last three dimensions.
$if EACH
$kernel sample(read element x, write element out, sampling_each g) {
    EACH_ELEMENT {
        if (at >= g.count) return;
        const int row = quotient(at, g.result[2]), slab = quotient(row, g.result[1]), plane = quotient(slab, g.result[0]);
        const long i = (at - row * (int)g.result[2].size) * g.step[2].size, y = (row - slab * (int)g.result[1].size) * g.step[1].size;
        const long z = (slab - plane * (int)g.result[0].size) * g.step[0].size;
        out[at] = x[((plane * g.extent[0] + z) * g.extent[1] + y) * g.extent[2] + i];
    }
}
$else
$kernel LOOPS sample(read element x, write element out, sampling g) {
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
$end
