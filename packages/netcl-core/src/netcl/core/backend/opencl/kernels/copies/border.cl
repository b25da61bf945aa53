// A border of elements of the tensor itself, and the gradient, for devices with many cores: a work-item computes EACH elements of the
// result, spaced by the width of a group, and finds their positions in the last DIMS of six dimensions (division.cl). REFLECT: the
// border is the mirror image without the edge, else it is the edge.

typedef struct {
    int count, extent[6], low[6], high[6];  // of the tensor without the border, and the border before and behind
    int magic[6], shift[6];  // of the sizes of the result
    int stride[6];  // of the operand
} bordering;

#define FIRST_DIM (6 - DIMS)
#define FIRST get_group_id(0) * get_local_size(0) * EACH + get_local_id(0)

#if REFLECT
#define INSIDE(i, n) ((i) < 0 ? -(i) : (i) >= (n) ? 2 * (n) - 2 - (i) : (i))
#else
#define INSIDE(i, n) clamp(i, 0, (n) - 1)
#endif

$kernel border(read STORAGE x, write STORAGE out, bordering g) {
    REAL value[EACH];
#pragma unroll
    for (uint k = 0; k < EACH; k++) {
        uint rest = FIRST + k * get_local_size(0);
        if (rest >= (uint)g.count) break;
        int from = 0;
#pragma unroll
        for (int d = 5; d >= FIRST_DIM; d--) {
            const uint quotient = d > FIRST_DIM ? quotient_by(rest, g.magic[d], g.shift[d]) : 0;
            const int i = (int)rest - (int)quotient * (g.low[d] + g.extent[d] + g.high[d]) - g.low[d];
            from += INSIDE(i, g.extent[d]) * g.stride[d];
            rest = quotient;
        }
        value[k] = LOAD(x, from);
    }
#pragma unroll
    for (uint k = 0; k < EACH; k++) {
        const uint item = FIRST + k * get_local_size(0);
        if (item < (uint)g.count) STORE(value[k], out, item);
    }
}

// The elements of the border that are i, before and behind it; and element k of the result's that are i.
#if REFLECT
#define BEFORE(i, d) (int)((i) > 0 && (i) <= g.low[d])
#define BEHIND(i, d) (int)((i) < g.extent[d] - 1 && (i) >= g.extent[d] - 1 - g.high[d])
#define IMAGE(i, k, before, d) \
    ((k) == 0 ? g.low[d] + (i) : (k) <= (before) ? g.low[d] - (i) : g.low[d] + 2 * g.extent[d] - 2 - (i))
#else
#define BEFORE(i, d) ((i) == 0 ? g.low[d] : 0)
#define BEHIND(i, d) ((i) == g.extent[d] - 1 ? g.high[d] : 0)
#define IMAGE(i, k, before, d) \
    ((k) == 0 ? g.low[d] + (i) : (k) <= (before) ? (k) - 1 : g.low[d] + g.extent[d] + (k) - 1 - (before))
#endif

$kernel border_gradient(read STORAGE grad, write STORAGE out, bordering g) {
    for (uint item = FIRST, each = 0; each < EACH && item < (uint)g.count; each++, item += get_local_size(0)) {
        int at[DIMS], before[DIMS], images[DIMS], from = 0, all = 1;
        uint rest = item;
#pragma unroll
        for (int d = 5; d >= FIRST_DIM; d--) {
            const uint quotient = d > FIRST_DIM ? quotient_by(rest, g.magic[d], g.shift[d]) : 0;
            const int i = (int)rest - (int)quotient * g.extent[d], own = d - FIRST_DIM;
            at[own] = i;
            before[own] = BEFORE(i, d);
            images[own] = 1 + before[own] + BEHIND(i, d);
            all *= images[own];
            from += (g.low[d] + i) * g.stride[d];
            rest = quotient;
        }
        REAL sum = LOAD(grad, from);
        for (int image = 1; image < all; image++) {
            int other = 0, left = image;
#pragma unroll
            for (int d = 5; d >= FIRST_DIM; d--) {
                const int own = d - FIRST_DIM, next = left / images[own];
                other += IMAGE(at[own], left - next * images[own], before[own], d) * g.stride[d];
                left = next;
            }
            sum += LOAD(grad, other);
        }
        STORE(sum, out, item);
    }
}
