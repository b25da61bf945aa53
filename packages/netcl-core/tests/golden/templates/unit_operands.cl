// unit_operands/2_True
#pragma OPENCL FP_CONTRACT OFF
#define BYTES 2
#define ITEMS 256
#define PIXELS 64
#define CHANNELS 64
#define EACH 4
#define FILTERS 1
#define LOOPS __attribute__((vec_type_hint(float16)))
// The operands of a convolution on a matrix unit, of elements of BYTES bytes, laid out in `out` by one launch of work-groups of
// ITEMS: first the images, then the other operand from element `begin` on.
//
// Images (images, channels, high, wide) become (images, rows, columns, channels): pixel (y, x) at (low_y + spread * y,
// low_x + spread * x), if that is inside; elements that are no pixel are zero. A work-group moves PIXELS pixels of the result, of
// CHANNELS channels, through local memory: it reads along pixels and writes along channels.
//
// The other operand becomes rows of `length` elements, of which a work-group writes ITEMS * EACH.

#if BYTES == 2
typedef ushort element;
#else
typedef uint element;
#endif

#if FILTERS
// Row r of filters has `inner` channels for each tap.
#define OTHER_PARAMETERS const int inner, const int row_step, const int inner_step, const int first_tap, const int tap_step
#define OTHER_ELEMENT(r, at) \
    other[(long)(r) * row_step + (long)((at) % inner) * inner_step + first_tap + (at) / inner * tap_step]
#else
// Row r is channel r of images (images, others, other_high, other_wide), image n from `step` * n on, its rows at a distance of
// `line`, and zeros.
#define OTHER_PARAMETERS const int others, const int other_high, const int other_wide, const int step, const int line
#define OTHER_ELEMENT(r, at) pixel_or_zero(other, r, at, images, others, other_high, other_wide, step, line)

static inline element pixel_or_zero(__global const element* other, const int channel, const int at, const int images, const int others,
                                    const int high, const int wide, const int step, const int line) {
    const int n = at / step, pixel = at % step, y = pixel / line, x = pixel % line;
    const bool inside = n < images && y < high && x < wide;
    return inside ? other[(((long)n * others + channel) * high + y) * wide + x] : (element)0;
}
#endif

#define LOADS (PIXELS * CHANNELS / ITEMS)  // of a work-item

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void unit_operands(__global const element* restrict source, __global const element* restrict other, __global element* restrict out,
                   const int images, const int channels, const int high, const int wide, const int rows, const int columns,
                   const int low_y, const int low_x, const int spread, const long begin, const int length, OTHER_PARAMETERS) {
    __local element square[PIXELS][CHANNELS + 4 / BYTES];  // neighbours of a column are in different banks
    const int item = get_local_id(0), number = get_group_id(0), count = rows * columns;
    const int runs = (count + PIXELS - 1) / PIXELS, blocks = (channels + CHANNELS - 1) / CHANNELS, past = number - images * runs * blocks;
    const int first = number % runs * PIXELS, channel = number / runs % blocks * CHANNELS;
    const long n = number / runs / blocks;
    if (past < 0) {
        const int pixel = first + item % PIXELS, y = pixel / columns - low_y, x = pixel % columns - low_x;
        const bool inside = pixel < count && y >= 0 && x >= 0 && y % spread == 0 && x % spread == 0 && y / spread < high && x / spread < wide;
        const long plane = (long)high * wide;
        __global const element* from = source + (n * channels + channel) * plane + (inside ? y / spread * wide + x / spread : 0);
        element loaded[LOADS];  // all under way before the first is stored
        for (int k = 0; k < LOADS; k++) loaded[k] = from[min(item / PIXELS + k * (ITEMS / PIXELS), channels - 1 - channel) * plane];
        for (int k = 0; k < LOADS; k++) square[item % PIXELS][item / PIXELS + k * (ITEMS / PIXELS)] = inside ? loaded[k] : (element)0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (past < 0) {
        __global element* to = out + (n * count + first) * channels + channel;
        for (int k = item; k < PIXELS * CHANNELS; k += ITEMS) {
            const int p = k / CHANNELS, c = k % CHANNELS;
            if (first + p < count && channel + c < channels) to[(long)p * channels + c] = square[p][c];
        }
    } else {
        const int parts = (length + ITEMS * EACH - 1) / (ITEMS * EACH), row = past / parts, start = past % parts * (ITEMS * EACH) + item;
        __global element* to = out + begin + (long)row * length;
        element loaded[EACH];
        for (int k = 0; k < EACH; k++) loaded[k] = OTHER_ELEMENT(row, min(start + k * ITEMS, length - 1));
        for (int k = 0; k < EACH; k++)
            if (start + k * ITEMS < length) to[start + k * ITEMS] = loaded[k];
    }
}
