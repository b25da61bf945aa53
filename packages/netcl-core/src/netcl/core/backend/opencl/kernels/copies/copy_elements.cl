// Strided copy of a block for devices with many cores: a work-item copies one element (of up to 16 bytes, which are several
// adjacent elements of the tensors), and finds its position in the last DIMS dimensions by divisions of 32 bits.
__kernel void copy_elements(__global const element* restrict source, __global element* restrict out, const copying g) {
    uint rest = get_global_id(0);
    if (rest >= (uint)g.tiles) return;
    long from = g.source_offset, to = g.out_offset;
#pragma unroll
    for (int d = 5; d > 6 - DIMS; d--) {
        const uint extent = g.extent[d], quotient = rest / extent, i = rest - quotient * extent;
        from += i * g.source_stride[d];
        to += i * g.out_stride[d];
        rest = quotient;
    }
    out[to + rest * g.out_stride[6 - DIMS]] = source[from + rest * g.source_stride[6 - DIMS]];
}
