// resample_nearest/float32
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define EACH 4
#define FIXED 
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// Quotients of 32 bits by multiplication (Granlund and Montgomery 1994): of n below 2^31 by a divisor, with the magic
// number and shift computed on the host.

static inline uint quotient_by(const uint n, const uint magic, const uint shift) { return (mul_hi(n, magic) + n) >> shift; }

// A number with its magic number and shift.
typedef struct { long size, magic, shift; } divisor;

static inline int quotient(const int n, const divisor by) { return (int)quotient_by(n, by.magic, by.shift); }
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

__kernel void nearest(
    __global const STORAGE *restrict source,
    __global STORAGE *restrict out,
    const sampling given) {
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

__kernel void nearest_gradient(
    __global const STORAGE *restrict grad,
    __global STORAGE *restrict out,
    const sampling given) {
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
