// Nearest neighbours along the last three dimensions in one launch, for GPUs: a work-item computes EACH elements, spaced by the width
// of a group. Output o of a dimension is at (step * o + start) / unit of the input, held at the borders; all positions and products
// fit in an int.
//
// FIXED sets step, start and unit where they are small and frequent, so that divisions by them are multiplications.

typedef struct {
    int planes, extent[3], out[3], step[3], start[3], unit[3];
    int magic[3], shift[3];  // of the dimensions that are written (division.cl)
} sampling;

static inline int floor_divide(const int a, const int b) { return a / b - (a % b < 0); }

static inline int ceil_divide(const int a, const int b) { return a / b + (a % b > 0); }

static inline int nearest_to(const int o, const int d, const sampling* g) {
    return clamp(floor_divide(g->step[d] * o + g->start[d], g->unit[d]), 0, g->extent[d] - 1);
}

#define FIRST get_group_id(0) * get_local_size(0) * EACH + get_local_id(0)

// The position of element `item` in dimensions of these sizes: plane, z, y and x.
#define POSITION(SIZE) \
    const uint row = quotient_by(item, g.magic[2], g.shift[2]), sheet = quotient_by(row, g.magic[1], g.shift[1]); \
    const int plane = quotient_by(sheet, g.magic[0], g.shift[0]), z = sheet - plane * (SIZE)[0], y = row - sheet * (SIZE)[1], x = item - row * (SIZE)[2]; \
    if (plane >= g.planes) break

$kernel nearest(read STORAGE source, write STORAGE out, sampling given) {
    sampling g = given;
    FIXED
#pragma unroll
    for (uint k = 0, item = FIRST; k < EACH; k++, item += get_local_size(0)) {
        POSITION(g.out);
        const int line = (plane * g.extent[0] + nearest_to(z, 0, &g)) * g.extent[1] + nearest_to(y, 1, &g);
        STORE(LOAD(source, line * g.extent[2] + nearest_to(x, 2, &g)), out, item);
    }
}

// The outputs of dimension d with the neighbour i: from s0 to below s1.
static inline int2 outputs_of(const int i, const int d, const sampling* g) {
    if (g->step[d] == 0) return (int2)(0, nearest_to(0, d, g) == i ? g->out[d] : 0);
    const int low = i > 0 ? max(0, ceil_divide(g->unit[d] * i - g->start[d], g->step[d])) : 0;
    const int high = ceil_divide(g->unit[d] * (i + 1) - g->start[d], g->step[d]);
    return (int2)(low, i < g->extent[d] - 1 ? min(g->out[d], high) : g->out[d]);
}

$kernel nearest_gradient(read STORAGE grad, write STORAGE out, sampling given) {
    sampling g = given;
    FIXED
    for (uint k = 0, item = FIRST; k < EACH; k++, item += get_local_size(0)) {
        POSITION(g.extent);
        const int2 deep = outputs_of(z, 0, &g), high = outputs_of(y, 1, &g), wide = outputs_of(x, 2, &g);
        REAL sum = 0;
        for (int oz = deep.s0; oz < deep.s1; oz++)
            for (int oy = high.s0; oy < high.s1; oy++) {
                const int line = ((plane * g.out[0] + oz) * g.out[1] + oy) * g.out[2];
                for (int ox = wide.s0; ox < wide.s1; ox++) sum += LOAD(grad, line + ox);
            }
        STORE(sum, out, item);
    }
}
