// Max pooling on CPUs of windows that are inside of the images: vectors of adjacent results, possibly of different
// rows.

$kernel LOOPS max_forward(read STORAGE x, write STORAGE out, write int indices, window g) {
    const long begin = get_global_id(0) * g.block, end = min(g.rows, begin + g.block) * g.out[2];
    const long plane = g.extent[0] * g.extent[1] * g.extent[2], line = g.extent[2];
    // The result that comes next: its place in its plane, and where the first tap of its row is.
    long px = 0, py = begin % g.out[1], pz = begin / g.out[1] % g.out[0];
    long image = begin / g.out[1] / g.out[0] * plane;
    for (long at = begin * g.out[2]; at < end; at += VECTOR) {
        const int count = min((long)VECTOR, end - at);
        long from[VECTOR];
        int first[VECTOR];
        for (int i = 0; i < VECTOR; i++) {
            const int tap = (int)((pz * g.stride[0] * g.extent[1] + py * g.stride[1]) * line + px * g.stride[2]);
            from[i] = image + tap;
            first[i] = tap;
            if (i >= count - 1 || ++px < g.out[2]) continue;
            px = 0;
            if (++py < g.out[1]) continue;
            py = 0;
            if (++pz < g.out[0]) continue;
            pz = 0;
            image += plane;
        }
        // The next result follows this one; past the end lanes repeat the last.
        if (count == VECTOR && ++px == g.out[2]) {
            px = 0;
            if (++py == g.out[1]) {
                py = 0;
                if (++pz == g.out[0]) {
                    pz = 0;
                    image += plane;
                }
            }
        }
        // A NaN wins, the first one stays; so does the first of equals.
        const INTV start = ILOAD(first);
        INTV best_at = start;
        REALV best = GATHER(x, from);
        for (long kz = 0; kz < g.taps[0]; kz++)
            for (long ky = 0; ky < g.taps[1]; ky++)
                for (long kx = kz || ky ? 0 : 1; kx < g.taps[2]; kx++) {
                    const long offset = (kz * g.dilation[0] * g.extent[1] + ky * g.dilation[1]) * line + kx * g.dilation[2];
                    const REALV value = GATHER(x + offset, from);
                    const INTV better = (value > best) | ((value != value) & (best == best));
                    best = better ? value : best;
                    best_at = better ? start + (int)offset : best_at;
                }
        if (count == VECTOR) {
            VSTORE(best, out + at);
            ISTORE(best_at, indices + at);
            continue;
        }
        REAL values[VECTOR];
        int places[VECTOR];
        RSTORE(best, values);
        ISTORE(best_at, places);
        for (int i = 0; i < count; i++) {
            STORE(values[i], out, at + i);
            indices[at + i] = places[i];
        }
    }
}
