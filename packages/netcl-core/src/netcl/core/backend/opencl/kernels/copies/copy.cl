// Strided copy of a block by runs of elements.
//
// Where rows of the source are columns of the result (`transposing`), blocks of EDGE x EDGE pass through registers or private
// memory: each cache line is then read and written once or twice, also where a power-of-two stride puts all lines in one set of
// the cache. Tiles of EDGE columns are of elements of four bytes that are adjacent in the source's rows and in the result's.
// A result that no cache holds `streams`: its lines are written whole, past the caches (by STREAM of the part `stream`), and
// all runs of it begin at a multiple of 64 bytes.

${stream}
#define EDGE 16

#if BYTES == 1
typedef uchar16 run;
#elif BYTES == 2
typedef ushort16 run;
#elif BYTES == 4
typedef uint16 run;
#elif BYTES == 16
typedef uint4 run;
#else
typedef ulong8 run;
#endif
typedef run __attribute__((aligned(BYTES))) packed_run;
#define RUN (sizeof(run) / BYTES)

#if BYTES == 4
typedef uint8 __attribute__((aligned(4))) packed8;

// Eight elements of eight neighbouring rows of the source, at a distance of `step` elements, as eight rows of the result.
static inline void transpose8(__global const uint* s, const long step, uint8* t) {
#define ROW(i) uint8 x##i = *(__global const packed8*)(s + i * step);
#define PAIR(i, j) const uint8 y##i = (uint8)(x##i.s0, x##j.s0, x##i.s2, x##j.s2, x##i.s4, x##j.s4, x##i.s6, x##j.s6); \
                   const uint8 y##j = (uint8)(x##i.s1, x##j.s1, x##i.s3, x##j.s3, x##i.s5, x##j.s5, x##i.s7, x##j.s7);
#define FOUR(i, j) const uint8 z##i = (uint8)(y##i.s01, y##j.s01, y##i.s45, y##j.s45); \
                   const uint8 z##j = (uint8)(y##i.s23, y##j.s23, y##i.s67, y##j.s67);
#define EIGHT(c, d, i, j) t[c] = (uint8)(z##i.lo, z##j.lo); t[d] = (uint8)(z##i.hi, z##j.hi);
    ROW(0) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6) ROW(7)
    PAIR(0, 1) PAIR(2, 3) PAIR(4, 5) PAIR(6, 7)
    FOUR(0, 2) FOUR(1, 3) FOUR(4, 6) FOUR(5, 7)
    EIGHT(0, 4, 0, 4) EIGHT(1, 5, 1, 5) EIGHT(2, 6, 2, 6) EIGHT(3, 7, 3, 7)
}

// Rows of the result, a cache line of each, from as many elements of sixteen rows of the source, eight at a time. (A branch on
// how they are stored inside of the loop makes Intel's compiler keep them in memory.)
#define LINES(name, STORE) \
static SEPARATE void name(__global const uint* s, const long step, __global uint* t, const long out_step, const long rows) { \
    for (long r = 0; r < rows; r += 8) { \
        uint8 left[8], right[8]; \
        transpose8(s + r, step, left); \
        transpose8(s + r + 8 * step, step, right); \
        _Pragma("unroll") \
        for (int i = 0; i < 8; i++) STORE((uint16)(left[i], right[i]), t + (r + i) * out_step); \
    } \
}
#define KEEP_LINE(value, to) *(__global packed_run*)(to) = value
#define STREAM_LINE(value, to) STREAM(value, (__global run*)(to))
LINES(keep_lines, KEEP_LINE)
LINES(stream_lines, STREAM_LINE)
#endif

// A block of the result, of `height` rows and `width` columns; its rows are along the columns of the source.
static SEPARATE void transpose(__global const element* s, const long step, const long row_step, __global element* t,
                             const long out_step, const long out_row_step, const long height, const long width) {
    element square[EDGE][EDGE];
    for (long c = 0; c < width; c++)
        for (long r = 0; r < height; r++) square[r][c] = s[c * step + r * row_step];
    for (long r = 0; r < height; r++)
        for (long c = 0; c < width; c++) t[r * out_row_step + c * out_step] = square[r][c];
}

$kernel copy(read element source, write element out, copying g) {
    const size_t first = get_global_id(0) * g.block, last = min((size_t)g.tiles, (size_t)(first + g.block));
    const long source_step = g.source_stride[5], out_step = g.out_stride[5];
    for (size_t tile = first; tile < last; tile++) {
        // Along the rows of the source first, at any address.
        const size_t near = g.counts[g.transposing ? 0 : 1], a = tile % near, b = tile / near % g.counts[g.transposing ? 1 : 0];
        const long column = (long)(g.transposing ? b : a) * g.tile[1], row = (long)(g.transposing ? a : b) * g.tile[0];
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
            long left = row;
#if BYTES == 4
            if (columns == EDGE && g.tile[1] == EDGE) {
                left += (rows - row) / 8 * 8;
                __global const element* s = source + from + row;
                __global element* t = out + to + row * g.out_stride[4];
                if (g.streams) stream_lines(s, source_step, t, g.out_stride[4], left - row);
                else keep_lines(s, source_step, t, g.out_stride[4], left - row);
            }
#endif
            for (long c = 0; c < columns; c += EDGE)
                for (long r = left; r < rows; r += EDGE)
                    transpose(source + from + r * g.source_stride[4] + c * source_step, source_step, g.source_stride[4],
                              out + to + r * g.out_stride[4] + c * out_step, out_step, g.out_stride[4],
                              min(rows - r, (long)EDGE), min(columns - c, (long)EDGE));
            continue;
        }
        for (long r = row; r < rows; r++) {
            __global const element* s = source + from + r * g.source_stride[4];
            __global element* t = out + to + r * g.out_stride[4];
            if (source_step == 1 && out_step == 1) {
                long c = 0;
                if (g.streams)
                    for (; c + (long)RUN <= columns; c += RUN)
                        STREAM(*(__global const packed_run*)(s + c), (__global run*)(t + c));
                for (; c < columns; c++) t[c] = s[c];
            }
            else if (source_step == 0 && out_step == 1) {
                const element value = s[0];
                for (long c = 0; c < columns; c++) t[c] = value;
            } else
                for (long c = 0; c < columns; c++) t[c * out_step] = s[c * source_step];
        }
    }
}
