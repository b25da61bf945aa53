// Gradient of images with few channels, on CPU devices (see contract_channels.cl): the gradient of each tap, ROWS taps x SPAN
// vectors of a matrix product of the weights with the output's gradient in place; then each row of the image sums the
// gradients of its taps. Before these gradients are the weights in panels, [tile of taps][filter][ROWS].

#define RUN 64  // products that are summed before they are added to the total: reduces the rounding error of long sums

$kernel LOOPING channels_input(read STORAGE grad, read A_STORAGE weight, write STORAGE out, write REAL scratch,
        images geometry) {
    const images g = geometry;
    const long plane = g.rows * g.columns, first = get_global_id(0) * g.each, last = min(g.total, first + g.each);
    const long tiles = (g.taps + ROWS - 1) / ROWS, over = (g.sides[0] - 1) * g.dilation[0];
    const long length = max(g.low[1] + g.width, (g.columns - 1) * g.stride[1] + (g.sides[1] - 1) * g.dilation[1] + 1);
    scratch += get_global_id(0) * g.scratch;
    zero(scratch, g.strip);
    for (long f = 0; f < g.filters; f++)
        for (long t = 0; t < g.taps; t++) scratch[(t / ROWS * g.filters + f) * ROWS + t % ROWS] = A_LOAD(weight, f * g.taps + t);
    __global REAL* given = scratch + g.strip;
    __global REAL* line = given + tiles * ROWS * g.run;
    for (long block = first; block < last; block++) {
        const long image = block / g.blocks, top = block % g.blocks * g.block, bottom = min(g.height, top + g.block);
        // The rows of the output that read these of the image; the last vectors of an image begin so that they still fit.
        const long above = max(0L, top + g.low[0] - over + g.stride[0] - 1) / g.stride[0];
        const long below = min(g.rows, (bottom - 1 + g.low[0]) / g.stride[0] + 1);
        const long begin = min(above * g.columns, plane - COLUMNS), end = below * g.columns;
        for (long at = begin; at < end; at += COLUMNS) {
            const long position = min(at, plane - COLUMNS);
            for (long tile = 0; tile < tiles; tile++)
                for (long start = 0; start < g.filters; start += RUN) {
                    REALV sums[ROWS][SPAN];
                    EACH(r, ROWS) EACH(v, SPAN) sums[r][v] = 0;
                    __global const STORAGE* from = grad + (image * g.filters + start) * plane + position;
                    __global const REAL* panel = scratch + (tile * g.filters + start) * ROWS;
                    const long stop = min((long)RUN, g.filters - start);
                    for (long f = 0; f < stop; f++, from += plane, panel += ROWS) {
                        REALV values[SPAN];
                        EACH(v, SPAN) values[v] = VLOAD(from + v * VECTOR);
                        EACH(r, ROWS) {
                            const REAL w = panel[r];
                            EACH(v, SPAN) sums[r][v] += w * values[v];
                        }
                    }
                    EACH(r, ROWS) EACH(v, SPAN) {
                        __global REAL* to = given + (tile * ROWS + r) * g.run + position - begin + v * VECTOR;
                        GSTORE(start ? GLOAD(to) + sums[r][v] : sums[r][v], to);
                    }
                }
        }
        for (long c = 0; c < g.channels; c++)
            for (long y = top; y < bottom; y++) {
                zero(line, length);
                for (long tap = 0; tap < g.sides[0] * g.sides[1]; tap++) {
                    const long row = y + g.low[0] - tap / g.sides[1] * g.dilation[0];
                    if (row < 0 || row % g.stride[0] || row / g.stride[0] >= g.rows) continue;
                    __global const REAL* from = given + (c * g.sides[0] * g.sides[1] + tap) * g.run + row / g.stride[0] * g.columns - begin;
                    __global REAL* to = line + tap % g.sides[1] * g.dilation[1];
                    long at = 0;
                    if (g.stride[1] == 1)
                        for (; at + VECTOR <= g.columns; at += VECTOR) GSTORE(GLOAD(to + at) + GLOAD(from + at), to + at);
                    for (; at < g.columns; at++) to[at * g.stride[1]] += from[at];
                }
                __global STORAGE* to = out + ((image * g.channels + c) * g.height + y) * g.width;
                long at = 0;
                for (; at + VECTOR <= g.width; at += VECTOR) VSTORE(GLOAD(line + g.low[1] + at), to + at);
                for (; at < g.width; at++) STORE(line[g.low[1] + at], to, at);
            }
    }
}
