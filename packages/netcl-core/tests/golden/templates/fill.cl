// fill/ulong2
#pragma OPENCL FP_CONTRACT OFF
#define RUN ulong2
#define LOOPS __attribute__((vec_type_hint(float16)))
// fill: a work-item stores per_item runs, each a vector. fill_tail: one byte each, from start. The value has eight
// bytes and is repeated; out is aligned to 64 bytes.
__kernel void fill(
    __global RUN *out,
    const ulong value,
    const ulong count,
    const ulong per_item) {
    const RUN run = (RUN)(value);
    const size_t first = get_global_id(0) * (size_t)per_item;
    const size_t last = min(first + (size_t)per_item, (size_t)count);
    for (size_t i = first; i < last; i++) out[i] = run;
}

__kernel void fill_tail(
    __global uchar *out,
    const ulong value,
    const ulong start) {
    const size_t i = (size_t)start + get_global_id(0);
    out[i] = (uchar)(value >> (8 * (i & 7)));
}
