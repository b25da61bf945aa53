// unit_images/2
#pragma OPENCL FP_CONTRACT OFF
#define BYTES 2
#define ITEMS 256
#define PIXELS 64
#define CHANNELS 64
#define LOOPS __attribute__((vec_type_hint(float16)))
// The operands of convolutions on matrix units, of elements of BYTES bytes. Elements that are no pixel are zero. Work-groups have ITEMS
// work-items.

#if BYTES == 2
typedef ushort element;
#else
typedef uint element;
#endif

// Images (N, channels, high, wide) as (N, rows, columns, channels): pixel (y, x) at (low_y + spread * y, low_x + spread * x), if
// that is inside. A work-group moves PIXELS pixels of the result, of CHANNELS channels, through local memory: it reads along
// pixels and writes along channels.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void channels_last(__global const element* restrict source, __global element* restrict out, const int channels, const int high,
                   const int wide, const int rows, const int columns, const int low_y, const int low_x, const int spread) {
    __local element square[PIXELS][CHANNELS + 4 / BYTES];  // neighbours of a column are in different banks
    const int item = get_local_id(0), first = get_group_id(0) * PIXELS, channel = get_group_id(1) * CHANNELS;
    const int pixel = first + item % PIXELS, y = pixel / columns - low_y, x = pixel % columns - low_x, count = rows * columns;
    const bool inside = pixel < count && y >= 0 && x >= 0 && y % spread == 0 && x % spread == 0 && y / spread < high && x / spread < wide;
    const long n = get_group_id(2), plane = (long)high * wide;
    __global const element* from = source + (n * channels + channel) * plane + (inside ? y / spread * wide + x / spread : 0);
    for (int c = item / PIXELS; c < CHANNELS; c += ITEMS / PIXELS)
        square[item % PIXELS][c] = inside && channel + c < channels ? from[c * plane] : (element)0;
    barrier(CLK_LOCAL_MEM_FENCE);
    __global element* to = out + (n * count + first) * channels + channel;
    for (int k = item; k < PIXELS * CHANNELS; k += ITEMS) {
        const int p = k / CHANNELS, c = k % CHANNELS;
        if (first + p < count && channel + c < channels) to[(long)p * channels + c] = square[p][c];
    }
}

// Images (N, channels, high, wide) as (channels, line), image n from `step` * n on, its rows at a distance of `columns`. A work-item
// writes one element.
__kernel void channels_first(__global const element* restrict source, __global element* restrict out, const int images,
                             const int channels, const int high, const int wide, const int step, const int columns,
                             const int line) {
    const int at = get_global_id(0), channel = get_global_id(1);
    if (at >= line) return;
    const int n = at / step, pixel = at % step, y = pixel / columns, x = pixel % columns;
    const bool inside = n < images && y < high && x < wide;
    out[(long)channel * line + at] = inside ? source[(((long)n * channels + channel) * high + y) * wide + x] : (element)0;
}
