// Strided copy of a block, elements moved as bits of BYTES bytes.
//
// The two innermost dimensions are cut in tiles of tile[0] x tile[1]; one work-item copies `block` tiles in turn. The
// four dimensions outside them have any strides, as has the source, which may be repeated (0) or reversed (below 0).
// Where rows of the source are columns of the result (`transposing`), a tile of EDGE x EDGE passes through private memory:
// each cache line is then read and written once, also where a power-of-two stride puts all lines in one set of the cache.

#define EDGE 16

#if BYTES == 1
typedef uchar element;
#elif BYTES == 2
typedef ushort element;
#elif BYTES == 4
typedef uint element;
#else
typedef ulong element;
#endif

typedef struct {
    long tiles, block, transposing, source_offset, out_offset;
    long tile[2], counts[2], extent[6], source_stride[6], out_stride[6];
} copying;

__kernel void copy(__global const element* restrict source, __global element* restrict out, const copying g) {
    const size_t first = get_global_id(0) * g.block, last = min((size_t)g.tiles, (size_t)(first + g.block));
    const long source_step = g.source_stride[5], out_step = g.out_stride[5];
    for (size_t tile = first; tile < last; tile++) {
        const long column = (long)(tile % g.counts[1]) * g.tile[1];
        const long row = (long)(tile / g.counts[1] % g.counts[0]) * g.tile[0];
        size_t rest = tile / g.counts[1] / g.counts[0];
        long from = g.source_offset + column * source_step, to = g.out_offset + column * out_step;
        for (int d = 3; d >= 0; d--) {
            const long i = rest % g.extent[d];
            rest /= g.extent[d];
            from += i * g.source_stride[d];
            to += i * g.out_stride[d];
        }
        const long rows = min(g.extent[4], row + g.tile[0]), columns = min(g.tile[1], g.extent[5] - column);
        if (g.transposing) {
            element square[EDGE][EDGE];
            const long height = rows - row;
            __global const element* s = source + from + row * g.source_stride[4];
            __global element* t = out + to + row * g.out_stride[4];
            for (long c = 0; c < columns; c++)
                for (long r = 0; r < height; r++) square[r][c] = s[c * source_step + r * g.source_stride[4]];
            for (long r = 0; r < height; r++)
                for (long c = 0; c < columns; c++) t[r * g.out_stride[4] + c * out_step] = square[r][c];
            continue;
        }
        for (long r = row; r < rows; r++) {
            __global const element* s = source + from + r * g.source_stride[4];
            __global element* t = out + to + r * g.out_stride[4];
            if (source_step == 1 && out_step == 1)
                for (long c = 0; c < columns; c++) t[c] = s[c];
            else if (source_step == 0 && out_step == 1) {
                const element value = s[0];
                for (long c = 0; c < columns; c++) t[c] = value;
            } else
                for (long c = 0; c < columns; c++) t[c * out_step] = s[c * source_step];
        }
    }
}
