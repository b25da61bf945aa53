// The reverse of pad_sample.cl: zeros between the elements and after them.
$if EACH
$kernel spread(read element x, write element out, sampling_each g) {
    EACH_ELEMENT {
        if (at >= g.count) return;
        const int row = quotient(at, g.result[2]), slab = quotient(row, g.result[1]), plane = quotient(slab, g.result[0]);
        const int i = at - row * (int)g.result[2].size, y = row - slab * (int)g.result[1].size, z = slab - plane * (int)g.result[0].size;
        const int from_i = quotient(i, g.step[2]), from_y = quotient(y, g.step[1]), from_z = quotient(z, g.step[0]);
        const bool met = from_i * (int)g.step[2].size == i && from_y * (int)g.step[1].size == y && from_z * (int)g.step[0].size == z
                         && from_i < g.extent[2] && from_y < g.extent[1] && from_z < g.extent[0];
        out[at] = met ? x[((plane * (int)g.extent[0] + from_z) * (int)g.extent[1] + from_y) * (int)g.extent[2] + from_i] : 0;
    }
}
$else
$kernel LOOPS spread(read element x, write element out, sampling g) {
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
$end
