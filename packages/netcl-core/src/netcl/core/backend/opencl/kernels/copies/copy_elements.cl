// Strided copy of a block for devices with many cores: a work-item copies EACH elements (of up to 16 bytes, which are several
// adjacent elements of the tensors), spaced by the width of a group, so that many loads are under way, and finds their positions in the
// last DIMS of six dimensions.

typedef struct {
    long count, source_offset, out_offset;
    long extent[6], magic[6], shift[6], source_stride[6], out_stride[6];
} copying_elements;

$kernel copy_elements(read source_element source, write result_element out, copying_elements g) {
    const uint width = get_local_size(0), begin = get_group_id(0) * width * EACH + get_local_id(0);
    element values[EACH];
    long places[EACH];
#pragma unroll
    for (uint k = 0; k < EACH; k++) {
        uint rest = begin + k * width;
        if (rest >= (uint)g.count) break;
        long from = g.source_offset, to = g.out_offset;
#pragma unroll
        for (int d = 5; d > 6 - DIMS; d--) {
            const uint quotient = quotient_by(rest, g.magic[d], g.shift[d]), i = rest - quotient * (uint)g.extent[d];
            from += i * g.source_stride[d];
            to += i * g.out_stride[d];
            rest = quotient;
        }
        values[k] = GET(source, from + rest * g.source_stride[6 - DIMS]);
        places[k] = to + rest * g.out_stride[6 - DIMS];
    }
#pragma unroll
    for (uint k = 0; k < EACH; k++)
        if (begin + k * width < (uint)g.count) { PUT(values[k], out, places[k]) }
}
