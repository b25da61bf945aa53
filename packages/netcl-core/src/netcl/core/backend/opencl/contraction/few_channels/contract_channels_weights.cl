// Gradient of the weights for images with few channels, on CPU devices (see contract_channels.cl): the sums over the output for
// ROWS filters x SPAN taps, vectors along it, from the strip and the output's gradient in place. Before the strip are the
// sums of all blocks so far, [tile of filters][group of taps][ROWS][SPAN], in vectors; a work-item stores its partial sums in `parts`.

$kernel LOOPING channels_weights(read STORAGE x, read STORAGE grad, write REAL parts, write REAL scratch,
        images geometry, write REAL copies if COPIED) {
    const images g = geometry;
    const long plane = g.rows * g.columns, first = get_global_id(0) * g.each, last = min(g.total, first + g.each);
    scratch += get_global_id(0) * g.scratch;
    zero(scratch, g.scratch);
    __global REAL* strip = scratch + g.strip;
    // Taps past the last one repeat it, filters as well; their sums are not stored.
    long runs[MOST_TAPS + SPAN];
    find_runs(runs, &g);
    EACH(k, SPAN) runs[g.taps + k] = runs[g.taps - 1];
    for (long block = first; block < last; block += g.together) {
        const long many = min(g.together, last - block);
        long starts[MOST_TOGETHER], counts[MOST_TOGETHER];
        for (long m = 0; m < many; m++) {
            const long image = (block + m) / g.blocks, row = (block + m) % g.blocks * g.block, rows = min(g.block, g.rows - row);
            const long size = g.channels * g.height * g.width;
            fill_strip(IMAGE_OF(x + image * size, size), strip + m * g.apart, row, rows, &geometry);
            starts[m] = image * g.filters * plane + row * g.columns;
            counts[m] = rows * g.columns;
        }
        __global REAL* total = scratch;
        for (long f = 0; f < g.filters; f += ROWS)
            for (long t = 0; t < g.taps; t += SPAN) {
                REALV sums[ROWS][SPAN];
                EACH(r, ROWS) EACH(k, SPAN) sums[r][k] = 0;
                for (long m = 0; m < many; m++) {
                    const long count = counts[m], whole = count / VECTOR * VECTOR;
                    __global const STORAGE* from[ROWS];
                    EACH(r, ROWS) from[r] = grad + starts[m] + min(f + r, g.filters - 1) * plane;
                    __global const REAL* met[SPAN];
                    EACH(k, SPAN) met[k] = strip + m * g.apart + runs[t + k];
                    for (size_t at = 0; at < (size_t)whole; at += VECTOR) {
                        REALV values[SPAN];
                        EACH(k, SPAN) values[k] = GLOAD(met[k] + at);
                        EACH(r, ROWS) {
                            const REALV slope = VLOAD(from[r] + at);
                            EACH(k, SPAN) sums[r][k] += slope * values[k];
                        }
                    }
                    for (long at = whole; at < count; at++)
                        for (int r = 0; r < ROWS; r++)
                            for (int k = 0; k < SPAN; k++) total[(r * SPAN + k) * VECTOR + at - whole] += LOAD(from[r], at) * met[k][at];
                }
                EACH(r, ROWS) EACH(k, SPAN) {
                    __global REAL* sum = total + (r * SPAN + k) * VECTOR;
                    GSTORE(GLOAD(sum) + sums[r][k], sum);
                }
                total += ROWS * COLUMNS;
            }
    }
    const long groups = (g.taps + SPAN - 1) / SPAN;
    parts += get_global_id(0) * g.filters * g.taps;
    for (long f = 0; f < g.filters; f++)
        for (long t = 0; t < g.taps; t++) {
            __global const REAL* lanes = scratch + (((f / ROWS * groups + t / SPAN) * ROWS + f % ROWS) * SPAN + t % SPAN) * VECTOR;
            REAL sum = 0;
            for (int i = 0; i < VECTOR; i++) sum += lanes[i];
            parts[f * g.taps + t] = sum;
        }
}

