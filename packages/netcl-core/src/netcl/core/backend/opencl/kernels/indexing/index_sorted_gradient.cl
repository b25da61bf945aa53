// For many cores and many indices: `positions` has the sorted indices, `order` their positions before. The first work-item of
// equal indices adds the gradients of all of them, in their original order.
$kernel sorted_gradient(read STORAGE grad, read int positions, read long order, write REAL out, indexing g) {
    const long c = get_global_id(0);
    for (long first = get_global_id(1); first < g.count; first += get_global_size(1)) {
        const long row = positions[first];
        if (c >= g.after || (first > 0 && positions[first - 1] == row)) continue;
        for (long outer = get_global_id(2); outer < g.before; outer += get_global_size(2)) {
            __global const STORAGE* from = FROM(grad);
            __global REAL* to = TO(out) + row * g.after + c;
            REAL sum = *to;
            for (long i = first; i < g.count && positions[i] == row; i++) sum += LOAD(from, order[i] * g.after + c);
            *to = sum;
        }
    }
}
