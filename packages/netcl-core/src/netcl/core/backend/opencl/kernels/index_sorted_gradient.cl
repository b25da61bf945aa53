// For many cores and many indices: `places` has the sorted indices, `order` their places before. The first work-item of
// equal indices adds the gradients of all of them, in their original order.
__kernel void sorted_gradient(__global const STORAGE* restrict grad, __global const int* restrict places,
                              __global const long* restrict order, __global REAL* restrict out, const indexing g) {
    const long c = get_global_id(0);
    for (long first = get_global_id(1); first < g.count; first += get_global_size(1)) {
        const long row = places[first];
        if (c >= g.after || (first > 0 && places[first - 1] == row)) continue;
        for (long outer = get_global_id(2); outer < g.before; outer += get_global_size(2)) {
            __global const STORAGE* from = FROM(grad);
            __global REAL* to = TO(out) + row * g.after + c;
            REAL sum = *to;
            for (long i = first; i < g.count && places[i] == row; i++) sum += LOAD(from, order[i] * g.after + c);
            *to = sum;
        }
    }
}
