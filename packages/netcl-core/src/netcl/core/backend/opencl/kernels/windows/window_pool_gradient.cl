// The gradient of pooling: with MAXIMA of max pooling, from the positions of the maxima, otherwise of average pooling.
$kernel LOOPS KERNEL(read STORAGE grad, read int indices if MAXIMA, write STORAGE out, window GIVEN) {
    GEOMETRY
    EACH_ROW(g.extent[2]) {
        ROW_PLACE(g.extent);
        $if MAXIMA
        const span oz = windows_holding(pz + g.low[0], 0, &g), oy = windows_holding(py + g.low[1], 1, &g);
        $else
        const place z0 = pz + g.low[0], y0 = py + g.low[1];
        const span oz = windows_holding(z0, 0, &g), oy = windows_holding(y0, 1, &g);
        $end
        const place windows = plane * g.out[0] * g.out[1] * g.out[2];
        EACH_PIECE {
            PIECE_WINDOWS;
            $if MAXIMA
            const place start = (pz * g.extent[1] + py) * g.extent[2] + piece;
            for (place z = oz.first; z < oz.last; z++)
                for (place y = oy.first; y < oy.last; y++) {
                    const place line = windows + (z * g.out[1] + y) * g.out[2];
                    for (place i = first; i < last; i++) {
                        const place position = (place)indices[line + i] - start;
                        if (position >= 0 && position < width) sums[position] += LOAD(grad, line + i);
                    }
                }
            $else
            for (place z = oz.first; z < oz.last; z++) {
                if (!meets(z0, z, 0, &g)) continue;
                for (place y = oy.first; y < oy.last; y++) {
                    if (!meets(y0, y, 1, &g)) continue;
                    const place line = windows + (z * g.out[1] + y) * g.out[2];
                    const place count = counted(z, 0, &g) * counted(y, 1, &g);
                    for (place i = first; i < last; i++) {
                        const REAL share = LOAD(grad, line + i) / (REAL)(g.divisor ? g.divisor : max((place)1, count * counted(i, 2, &g)));
#ifdef SINGLE
                        if (meets(piece + g.low[2], i, 2, &g)) sums[0] += share;
#else
                        const place taps = g.stride[2] ? g.taps[2] : section(i, 2, &g);
                        place position = start_of(i, 2, &g) - piece;
                        for (place kx = 0; kx < taps; kx++, position += g.dilation[2])
                            if (position >= 0 && position < width) sums[position] += share;
#endif
                    }
                }
            }
            $end
            for (place i = 0; i < width; i++) STORE(sums[i], out, row * g.extent[2] + piece + i);
        }
    }
}
