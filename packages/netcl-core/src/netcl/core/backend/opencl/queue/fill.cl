// fill: a work-item stores per_item runs, each a vector. fill_tail: one byte each, from start. The value has eight
// bytes and is repeated; out is aligned to 64 bytes.
$kernel fill(write RUN* out, ulong value, ulong count, ulong per_item) {
    const RUN run = (RUN)(value);
    const size_t first = get_global_id(0) * (size_t)per_item;
    const size_t last = min(first + (size_t)per_item, (size_t)count);
    for (size_t i = first; i < last; i++) out[i] = run;
}

$kernel fill_tail(write uchar* out, ulong value, ulong start) {
    const size_t i = (size_t)start + get_global_id(0);
    out[i] = (uchar)(value >> (8 * (i & 7)));
}
