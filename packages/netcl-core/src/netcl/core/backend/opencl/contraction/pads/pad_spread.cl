// The reverse of pad_sample.cl: zeros between the elements and after them.
$if EACH
$kernel spread(read element x, write element out, sampling g) {
    const uint at = get_global_id(0), width = g.result[2], high = g.result[1], deep = g.result[0];
    if (at >= (uint)g.rows * width) return;
    const uint row = at / width, slab = row / high, plane = slab / deep;
    const uint i = at - row * width, y = row - slab * high, z = slab - plane * deep;
    const uint step_i = g.step[2], step_y = g.step[1], step_z = g.step[0];
    const uint from_i = i / step_i, from_y = y / step_y, from_z = z / step_z;
    const bool met = from_i * step_i == i && from_y * step_y == y && from_z * step_z == z && from_i < g.extent[2]
                     && from_y < g.extent[1] && from_z < g.extent[0];
    out[at] = met ? x[((plane * g.extent[0] + from_z) * g.extent[1] + from_y) * g.extent[2] + from_i] : 0;
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
