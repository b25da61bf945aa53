// A block within a tensor of one value otherwise, for devices with many cores: a work-item writes EACH elements of the result (of
// up to 16 bytes, which are several adjacent elements of the tensors), spaced by the width of a group: an element of the source if its
// position in the last DIMS of six dimensions is start + i * step for an i below size. STEPPED: some step is not one.

typedef struct {
    long count, value;  // eight bytes of repeated values
    long extent[6], magic[6], shift[6], size[6], start[6], step[6], source_stride[6];
} scattering;

$kernel scatter_elements(read element source, write element out, scattering g) {
    const uint width = get_local_size(0), begin = get_group_id(0) * width * EACH + get_local_id(0);
#if BYTES == 16
    const element value = as_uint4((long2)(g.value));
#else
    const element value = (element)g.value;
#endif
    element values[EACH];
#pragma unroll
    for (uint k = 0; k < EACH; k++) {
        uint rest = begin + k * width;
        if (rest >= (uint)g.count) break;
        long from = 0;
        bool inside = true;
#pragma unroll
        for (int d = 5; d >= 6 - DIMS; d--) {
            const uint quotient = d > 6 - DIMS ? quotient_by(rest, g.magic[d], g.shift[d]) : 0;
            int i = (int)(rest - quotient * (uint)g.extent[d]) - (int)g.start[d];
#if STEPPED
            const int step = g.step[d], whole = i / step;
            inside = inside && whole * step == i;
            i = whole;
#endif
            inside = inside && i >= 0 && i < (int)g.size[d];
            from += i * g.source_stride[d];
            rest = quotient;
        }
        values[k] = inside ? source[from] : value;
    }
#pragma unroll
    for (uint k = 0; k < EACH; k++)
        if (begin + k * width < (uint)g.count) out[begin + k * width] = values[k];
}
