// TILES_KERNEL on CPU devices: the tiles of images (data_tiles) or of the gradient of an output (gradient_tiles),
// [SIDE^2][plane][tile]. A work-item takes `each` planes of `span` vectors of tiles, and computes their places once.
// Contraction of a*b+c into one rounding is allowed here.

$kernel LOOPS TILES_KERNEL(read STORAGE x, write REAL tiles, tiling geometry) {
    const tiling g = geometry;
    const size_t spans = (g.stride + g.span * VECTOR - 1) / (g.span * VECTOR), span = get_global_id(0) % spans;
    const size_t first = get_global_id(0) / spans * g.each, last = min((size_t)g.planes, (size_t)(first + g.each));
    const int count = min(g.span, g.stride / VECTOR - (long)span * g.span);
    windows of[SPAN];
    for (int i = 0; i < count; i++) find_windows(&g, place_of(&g, (span * g.span + i) * VECTOR), of + i);
    for (size_t plane = first; plane < last; plane++) {
        const long at = g.offset + plane * g.plane;
        __global REAL* to = tiles + plane * g.stride + span * g.span * VECTOR;
        for (int i = 0; i < count; i++) transform_windows(x + at, at, g.length - at, &g, of + i, to + i * VECTOR, g.product);
    }
}
