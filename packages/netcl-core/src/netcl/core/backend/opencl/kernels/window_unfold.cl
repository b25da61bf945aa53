// im2col. Rows count (image, z, y) of the output; columns[image, z, y, x][channel, kz, ky, kx].
__kernel LOOPS void unfold(__global const STORAGE* restrict x, __global STORAGE* restrict columns, const window g) {
    const long taps = g.taps[0] * g.taps[1] * g.taps[2], volume = g.extent[0] * g.extent[1] * g.extent[2];
    EACH_ROW {
        ROW_PLACE(g.out);
        for (long px = 0; px < g.out[2]; px++) {
            __global STORAGE* target = columns + (row * g.out[2] + px) * g.channels * taps;
            for (long c = 0; c < g.channels; c++)
                for (long kz = 0; kz < g.taps[0]; kz++)
                    for (long ky = 0; ky < g.taps[1]; ky++) {
                        const long iz = pz * g.stride[0] - g.low[0] + kz * g.dilation[0];
                        const long iy = py * g.stride[1] - g.low[1] + ky * g.dilation[1];
                        const bool inside = iz >= 0 && iz < g.extent[0] && iy >= 0 && iy < g.extent[1];
                        __global const STORAGE* line = x + (plane * g.channels + c) * volume + (iz * g.extent[1] + iy) * g.extent[2];
                        for (long kx = 0; kx < g.taps[2]; kx++, target++) {
                            const long ix = px * g.stride[2] - g.low[2] + kx * g.dilation[2];
                            const REAL value = inside && ix >= 0 && ix < g.extent[2] ? LOAD(line, ix) : (REAL)0;
                            STORE(value, target, 0);
                        }
                    }
        }
    }
}
