// Pads (or, with negative amounts, crops) the last three dimensions with zeros; with WIDENED into the computing type.
#ifdef WIDENED
typedef STORAGE element;
typedef REAL padded_element;
#define TAKEN(p, i) LOAD(p, i)
#else
typedef element padded_element;
#define TAKEN(p, i) p[i]
#endif

#define NARROW 16  // elements of a row that is shorter than a few vectors

$if EACH
$kernel pad(read element x, write padded_element out, padding_each g) {
    const int wide = g.extent[2], high = g.extent[1], deep = g.extent[0], count = g.count;
    padded_element taken[EACH];  // all are under way before the first is stored
    EACH_ELEMENT {
        const int row = quotient(at, g.padded[2]), slab = quotient(row, g.padded[1]), plane = quotient(slab, g.padded[0]);
        const int i = at - row * (int)g.padded[2].size - (int)g.low[2], y = row - slab * (int)g.padded[1].size - (int)g.low[1];
        const int z = slab - plane * (int)g.padded[0].size - (int)g.low[0];
        const bool inside = at < count && i >= 0 && i < wide && y >= 0 && y < high && z >= 0 && z < deep;
        taken[turn] = inside ? TAKEN(x, g.offset + (((plane * deep + z) * high + y) * wide + i)) : 0;
    }
    EACH_ELEMENT {
        if (at < count) out[at] = taken[turn];
    }
}
$else
$kernel LOOPS pad(read element x, write padded_element out, padding g) {
    const size_t first = get_global_id(0) * g.block, last = min((size_t)g.rows, (size_t)(first + g.block));
    const long width = g.padded[2];
    const long begin = clamp(g.low[2], 0L, width), end = clamp(g.low[2] + g.extent[2], begin, width);
    const bool narrow = width <= NARROW;
    if (narrow)  // the zeros of all rows at once
        for (size_t i = first * width; i < last * width; i++) out[i] = 0;
    long y = (long)(first % g.padded[1]) - g.low[1], z = (long)(first / g.padded[1] % g.padded[0]) - g.low[0];
    size_t plane = first / g.padded[1] / g.padded[0];
    for (size_t row = first; row < last; row++, y++) {
        if (y == g.padded[1] - g.low[1]) {
            y = -g.low[1];
            if (++z == g.padded[0] - g.low[0]) {
                z = -g.low[0];
                plane++;
            }
        }
        __global padded_element* target = out + row * width;
        const bool zero = y < 0 || y >= g.extent[1] || z < 0 || z >= g.extent[0];
        __global const element* line = x + g.offset + ((plane * g.extent[0] + z) * g.extent[1] + y) * g.extent[2] - g.low[2];
        if (narrow) {
            if (zero) continue;
            long i = begin;
            for (; i + 4 <= end; i += 4) {
                target[i] = TAKEN(line, i);
                target[i + 1] = TAKEN(line, i + 1);
                target[i + 2] = TAKEN(line, i + 2);
                target[i + 3] = TAKEN(line, i + 3);
            }
            for (; i < end; i++) target[i] = TAKEN(line, i);
            continue;
        }
        if (zero) {
            for (long i = 0; i < width; i++) target[i] = 0;
            continue;
        }
        for (long i = 0; i < begin; i++) target[i] = 0;
        for (long i = begin; i < end; i++) target[i] = TAKEN(line, i);
        for (long i = end; i < width; i++) target[i] = 0;
    }
}
$end
