// Pooling: with MAXIMA max pooling, with the position of each maximum in its plane: -1 if the window has no element inside; otherwise
// average pooling.
$kernel LOOPS KERNEL(read STORAGE x, write STORAGE out, write int indices if MAXIMA, window GIVEN) {
    GEOMETRY
    const span inside = windows_inside(&g);
    EACH_ROW(g.out[2]) {
        ROW_PLACE(g.out);
        const place z0 = start_of(pz, 0, &g), y0 = start_of(py, 1, &g);
        const span sz = taps_of(pz, 0, &g), sy = taps_of(py, 1, &g);
        $if MAXIMA
        const bool seen = sz.first < sz.last && sy.first < sy.last;
        $else
        const place count = counted(pz, 0, &g) * counted(py, 1, &g);
        $end
        __global const STORAGE* image = x + plane * g.extent[0] * g.extent[1] * g.extent[2];
        place lanes = 1;
        for (place px = begin; px < end; px += lanes) {
            const place x0 = start_of(px, 2, &g);
            const bool within = px >= inside.first && px < inside.last;
            lanes = within ? min((place)LANES, min(end, inside.last) - px) : 1;
            const span sx = taps_of(px, 2, &g);
            $if MAXIMA
            // A NaN wins, the first one stays; so does the first of equals.
            REAL best[LANES];
            int at[LANES];
            const bool any = seen && sx.first < sx.last;
            const place start = any ? TAP_LINE(sz.first, sy.first) + sx.first * g.dilation[2] : 0;
            for (place i = 0; i < lanes; i++) {
                best[i] = any ? LOAD(image, start + i * STEP) : (REAL)0;
                at[i] = any ? (int)(start + i * STEP) : -1;
            }
            $else
            REAL sum[LANES];
            for (place i = 0; i < lanes; i++) sum[i] = 0;
            $end
            EACH_TAP(kz, sz, 0)
                EACH_TAP(ky, sy, 1)
                    EACH_TAP(kx, sx, 2) {
                        const place offset = TAP_LINE(kz, ky) + kx * g.dilation[2];
                        $if MAXIMA
                        for (place i = 0; i < lanes; i++) {
                            const REAL v = LOAD(image, offset + i * STEP);
                            const bool better = v > best[i] || (v != v && best[i] == best[i]);
                            best[i] = better ? v : best[i];
                            at[i] = better ? (int)(offset + i * STEP) : at[i];
                        }
                        $else
                        for (place i = 0; i < lanes; i++) sum[i] += LOAD(image, offset + i * STEP);
                        $end
                    }
            $if MAXIMA
            for (place i = 0; i < lanes; i++) {
                STORE(best[i], out, row * g.out[2] + px + i);
                indices[row * g.out[2] + px + i] = at[i];
            }
            $else
            const REAL divisor = (REAL)(g.divisor ? g.divisor : max((place)1, count * counted(px, 2, &g)));
            for (place i = 0; i < lanes; i++) STORE(sum[i] / divisor, out, row * g.out[2] + px + i);
            $end
        }
    }
}
