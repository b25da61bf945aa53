// The gradient of average pooling.
__kernel LOOPS void avg_gradient(__global const STORAGE* restrict grad, __global STORAGE* restrict out, const window g) {
    EACH_ROW {
        ROW_PLACE(g.extent);
        const long z0 = pz + g.low[0], y0 = py + g.low[1];
        const span oz = windows_holding(z0, 0, &g), oy = windows_holding(y0, 1, &g);
        const size_t windows = plane * g.out[0] * g.out[1] * g.out[2];
        EACH_PIECE {
            PIECE_WINDOWS;
            for (long z = oz.first; z < oz.last; z++) {
                if (!meets(z0, z, 0, &g)) continue;
                for (long y = oy.first; y < oy.last; y++) {
                    if (!meets(y0, y, 1, &g)) continue;
                    const size_t line = windows + (z * g.out[1] + y) * g.out[2];
                    const long count = counted(z, 0, &g) * counted(y, 1, &g);
                    for (long i = begin; i < end; i++) {
                        const long taps = g.stride[2] ? g.taps[2] : section(i, 2, &g);
                        const REAL share = LOAD(grad, line + i) / (REAL)(g.divisor ? g.divisor : max(1L, count * counted(i, 2, &g)));
                        long position = start_of(i, 2, &g) - piece;
                        for (long kx = 0; kx < taps; kx++, position += g.dilation[2])
                            if (position >= 0 && position < width) sums[position] += share;
                    }
                }
            }
            for (long i = 0; i < width; i++) STORE(sums[i], out, row * g.extent[2] + piece + i);
        }
    }
}
