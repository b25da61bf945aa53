// Convolution of images with few channels, on CPU devices (see contract_channels.cl): the sums of all taps for ROWS filters x
// SPAN vectors of the output, from the strip, through epilogue(sum, operands...) if requested. Before the strip are the
// weights in panels, [tile of filters][tap][ROWS], and the sums of a tile that wait for the epilogue or end a block.

// `count` values of an operand from offset `at` of the result on; values past the end repeat the last.
static inline REALV operand_vector(__global const STORAGE* e, const operand o, const long filter, const long at, const long count) {
    e += o.offset;
    if (o.along == 0) return (REALV)(LOAD(e, filter * o.row));
    if (count >= VECTOR) return VLOAD(e + at);
    REAL lanes[VECTOR];
    for (int i = 0; i < VECTOR; i++) lanes[i] = LOAD(e, at + min((long)i, count - 1));
    return RLOAD(lanes);
}

$kernel LOOPING channels_forward(read STORAGE x, read A_STORAGE weight, write STORAGE out, write REAL scratch,
        images geometry, write REAL copies if COPIED${operand_parameters}) {
    const images g = geometry;
    const long plane = g.rows * g.columns, first = get_global_id(0) * g.each, last = min(g.total, first + g.each);
    scratch += get_global_id(0) * g.scratch;
    zero(scratch, g.scratch);
    for (long f = 0; f < g.filters; f++)
        for (long t = 0; t < g.taps; t++) scratch[(f / ROWS * g.taps + t) * ROWS + f % ROWS] = A_LOAD(weight, f * g.taps + t);
    __global REAL* strip = scratch + g.strip;
    __global REAL* waiting = strip - ROWS * COLUMNS;
    long runs[MOST_TAPS];
    find_runs(runs, &g);
    for (long block = first; block < last; block++) {
        const long image = block / g.blocks, row = block % g.blocks * g.block, rows = min(g.block, g.rows - row);
        const long count = rows * g.columns;
        const long size = g.channels * g.height * g.width;
        fill_strip(IMAGE_OF(x + image * size, size), strip, row, rows, &geometry);
        for (long f = 0; f < g.filters; f += ROWS)
            for (long at = 0; at < count; at += COLUMNS) {
                REALV sums[ROWS][SPAN];
                EACH(r, ROWS) EACH(v, SPAN) sums[r][v] = 0;
                __global const REAL* panel = scratch + f * g.taps;
                for (long t = 0; t < g.taps; t++, panel += ROWS) {
                    REALV values[SPAN];
                    EACH(v, SPAN) values[v] = GLOAD(strip + runs[t] + at + v * VECTOR);
                    EACH(r, ROWS) {
                        const REAL w = panel[r];
                        EACH(v, SPAN) sums[r][v] += w * values[v];
                    }
                }
                const long start = (image * g.filters + f) * plane + row * g.columns + at;
                if (!g.finished && at + COLUMNS <= count) {
                    EACH(r, ROWS)
                        if (f + r < g.filters)
                            EACH(v, SPAN) VSTORE(sums[r][v], out + start + r * plane + v * VECTOR);
                    continue;
                }
                EACH(r, ROWS) EACH(v, SPAN) GSTORE(sums[r][v], waiting + (r * SPAN + v) * VECTOR);
                for (long filter = f; filter < min(g.filters, f + ROWS); filter++)
                    for (long v = 0; v < SPAN && at + v * VECTOR < count; v++) {
                        const long start_of_vector = start + (filter - f) * plane + v * VECTOR, left = count - at - v * VECTOR;
                        REALV sum = GLOAD(waiting + ((filter - f) * SPAN + v) * VECTOR);
                        if (g.finished) sum = epilogue(sum${operand_values});
                        if (left >= VECTOR) {
                            VSTORE(sum, out + start_of_vector);
                            continue;
                        }
                        REAL lanes[VECTOR];
                        RSTORE(sum, lanes);
                        for (long i = 0; i < left; i++) STORE(lanes[i], out, start_of_vector + i);
                    }
            }
    }
}

