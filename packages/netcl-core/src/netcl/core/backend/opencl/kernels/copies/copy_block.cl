// A strided block that a launch copies.
//
// The two innermost dimensions are cut in tiles of tile[0] x tile[1]; one work-item copies `block` tiles in turn. The
// four dimensions outside them have any strides, as has the source, which may be repeated (0) or reversed (below 0).

typedef struct {
    long tiles, block, transposing, streams, source_offset, out_offset;
    long tile[2], counts[2], extent[6], source_stride[6], out_stride[6];
} copying;
