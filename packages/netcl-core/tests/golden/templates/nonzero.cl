// nonzero/nonzero
#pragma OPENCL FP_CONTRACT OFF
#define LOOPS __attribute__((vec_type_hint(float16)))
// The positions of the true elements, in order, in two steps: each work-item counts those of its `block` elements, and then,
// told where to begin, lists them.

__kernel void count_true(__global const uchar* restrict mask, __global long* restrict counts, const long size,
                         const long block) {
    const long first = get_global_id(0) * block, last = min(size, (long)(first + block));
    long count = 0;
    for (long i = first; i < last; i++) count += mask[i] != 0;
    counts[get_global_id(0)] = count;
}

__kernel void list_true(__global const uchar* restrict mask, __global const long* restrict starts,
                        __global long* restrict out, const long size, const long block) {
    const long first = get_global_id(0) * block, last = min(size, (long)(first + block));
    long at = starts[get_global_id(0)];
    for (long i = first; i < last; i++)
        if (mask[i]) out[at++] = i;
}
