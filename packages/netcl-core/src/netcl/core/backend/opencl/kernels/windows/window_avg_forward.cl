// Average pooling.
$kernel LOOPS avg_forward(read STORAGE x, write STORAGE out, window GIVEN) {
    GEOMETRY
    const span inside = windows_inside(&g);
    EACH_ROW(g.out[2]) {
        ROW_PLACE(g.out);
        const place z0 = start_of(pz, 0, &g), y0 = start_of(py, 1, &g);
        const span sz = taps_of(pz, 0, &g), sy = taps_of(py, 1, &g);
        const place count = counted(pz, 0, &g) * counted(py, 1, &g);
        __global const STORAGE* image = x + plane * g.extent[0] * g.extent[1] * g.extent[2];
        place lanes = 1;
        for (place px = begin; px < end; px += lanes) {
            const place x0 = start_of(px, 2, &g);
            const bool within = px >= inside.first && px < inside.last;
            lanes = within ? min((place)LANES, min(end, inside.last) - px) : 1;
            const span sx = taps_of(px, 2, &g);
            REAL sum[LANES];
            for (place i = 0; i < lanes; i++) sum[i] = 0;
            EACH_TAP(kz, sz, 0)
                EACH_TAP(ky, sy, 1)
                    EACH_TAP(kx, sx, 2) {
                        const place offset = TAP_LINE(kz, ky) + kx * g.dilation[2];
                        for (place i = 0; i < lanes; i++) sum[i] += LOAD(image, offset + i * STEP);
                    }
            const REAL divisor = (REAL)(g.divisor ? g.divisor : max((place)1, count * counted(px, 2, &g)));
            for (place i = 0; i < lanes; i++) STORE(sum[i] / divisor, out, row * g.out[2] + px + i);
        }
    }
}
