// col2im, the gradient of unfold. Rows count (image, channel, z, y) of the input.
__kernel LOOPS void fold(__global const STORAGE* restrict columns, __global STORAGE* restrict out, const window g) {
    const long taps = g.taps[0] * g.taps[1] * g.taps[2], width = g.channels * taps;
    EACH_ROW {
        ROW_PLACE(g.extent);
        const long c = plane % g.channels;
        const size_t image = plane / g.channels;
        const long z0 = pz + g.low[0], y0 = py + g.low[1];
        const span oz = windows_holding(z0, 0, &g), oy = windows_holding(y0, 1, &g);
        span ox = windows_holding(g.low[2], 2, &g);
        for (long px = 0; px < g.extent[2]; px++, ox = next_windows(ox, px + g.low[2], 2, &g)) {
            const long x0 = px + g.low[2];
            REAL sum = 0;
            for (long z = oz.first; z < oz.last; z++) {
                if (!meets(z0, z, 0, &g)) continue;
                for (long y = oy.first; y < oy.last; y++) {
                    if (!meets(y0, y, 1, &g)) continue;
                    const long kz = (z0 - z * g.stride[0]) / g.dilation[0], ky = (y0 - y * g.stride[1]) / g.dilation[1];
                    const size_t line = ((image * g.out[0] + z) * g.out[1] + y) * g.out[2];
                    const size_t tap = c * taps + (kz * g.taps[1] + ky) * g.taps[2];
                    for (long i = ox.first; i < ox.last; i++)
                        if (meets(x0, i, 2, &g))
                            sum += LOAD(columns, (line + i) * width + tap + (x0 - i * g.stride[2]) / g.dilation[2]);
                }
            }
            STORE(sum, out, row * g.extent[2] + px);
        }
    }
}
