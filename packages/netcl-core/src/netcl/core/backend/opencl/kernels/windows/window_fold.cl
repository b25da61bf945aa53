// col2im, the gradient of unfold. Rows count (image, channel, z, y) of the input.
$kernel LOOPS fold(read STORAGE columns, write STORAGE out, window GIVEN) {
    GEOMETRY
    const place taps = g.taps[0] * g.taps[1] * g.taps[2], width = g.channels * taps;
    EACH_ROW(g.extent[2]) {
        ROW_PLACE(g.extent);
        const place c = plane % g.channels;
        const place image = plane / g.channels;
        const place z0 = pz + g.low[0], y0 = py + g.low[1];
        const span oz = windows_holding(z0, 0, &g), oy = windows_holding(y0, 1, &g);
        span ox = windows_holding(begin + g.low[2], 2, &g);
        for (place px = begin; px < end; px++, ox = next_windows(ox, px + g.low[2], 2, &g)) {
            const place x0 = px + g.low[2];
            REAL sum = 0;
            for (place z = oz.first; z < oz.last; z++) {
                if (!meets(z0, z, 0, &g)) continue;
                for (place y = oy.first; y < oy.last; y++) {
                    if (!meets(y0, y, 1, &g)) continue;
                    const place kz = (z0 - z * g.stride[0]) / g.dilation[0], ky = (y0 - y * g.stride[1]) / g.dilation[1];
                    const place line = ((image * g.out[0] + z) * g.out[1] + y) * g.out[2];
                    const place tap = c * taps + (kz * g.taps[1] + ky) * g.taps[2];
                    for (place i = ox.first; i < ox.last; i++)
                        if (meets(x0, i, 2, &g))
                            sum += LOAD(columns, (line + i) * width + tap + (x0 - i * g.stride[2]) / g.dilation[2]);
                }
            }
            STORE(sum, out, row * g.extent[2] + px);
        }
    }
}
