// im2col. Rows count (image, z, y) of the output; columns[image, z, y, x][channel, kz, ky, kx]. With SINGLE a work-item writes one tap
// of one channel.
#define TAPS (g.taps[0] * g.taps[1] * g.taps[2])

// The element under a tap in the plane of a channel, zero outside.
#define UNDER(c, kz, ky, kx, value) { \
        const place iz = pz * g.stride[0] - g.low[0] + (kz) * g.dilation[0]; \
        const place iy = py * g.stride[1] - g.low[1] + (ky) * g.dilation[1]; \
        const place ix = px * g.stride[2] - g.low[2] + (kx) * g.dilation[2]; \
        const bool inside = iz >= 0 && iz < g.extent[0] && iy >= 0 && iy < g.extent[1] && ix >= 0 && ix < g.extent[2]; \
        const place line = ((plane * g.channels + (c)) * g.extent[0] + iz) * g.extent[1] + iy; \
        value = inside ? LOAD(x, line * g.extent[2] + ix) : (REAL)0; \
    }

$kernel LOOPS unfold(read STORAGE x, write STORAGE columns, window GIVEN) {
    GEOMETRY
    const place width = g.channels * TAPS;
    REAL value;
#ifdef SINGLE
    EACH_ROW(g.out[2] * width) {
        ROW_PLACE(g.out);
        const place px = begin / width, tap = begin % width, ky = tap / g.taps[2] % g.taps[1], kz = tap / g.taps[2] / g.taps[1] % g.taps[0];
        UNDER(tap / TAPS, kz, ky, tap % g.taps[2], value)
        STORE(value, columns, item);
    }
#else
    EACH_ROW(g.out[2]) {
        ROW_PLACE(g.out);
        for (place px = begin; px < end; px++) {
            __global STORAGE* target = columns + (row * g.out[2] + px) * width;
            for (place c = 0; c < g.channels; c++)
                for (place kz = 0; kz < g.taps[0]; kz++)
                    for (place ky = 0; ky < g.taps[1]; ky++)
                        for (place kx = 0; kx < g.taps[2]; kx++, target++) {
                            UNDER(c, kz, ky, kx, value)
                            STORE(value, target, 0);
                        }
        }
    }
#endif
}
