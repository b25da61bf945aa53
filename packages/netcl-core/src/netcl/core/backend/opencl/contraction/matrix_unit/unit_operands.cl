// The operands of a convolution on a matrix unit, of elements of 16 bits, laid out in `out` by one launch of work-groups of ITEMS:
// first the images, then the other operand from element `begin` on.
//
// Images (images, channels, high, wide) become (images, rows, columns, inner), with zeros after the channels: pixel (y, x) at
// (low_y + spread * y, low_x + spread * x), if that is inside. A work-group moves PIXELS pixels of CHANNELS channels through local
// memory: a work-item loads VECTOR pixels, which divides high * wide, of two channels, and stores four channels of a pixel. The next
// `borders` work-groups store zeros at all other places, each at those of ITEMS.
//
// The other operand becomes rows of `length` elements. Its elements are of the type stored_other: floats that are ROUNDED to the
// half type of the images, or as they are in `out`.

${other}

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if VECTOR == 1
typedef ushort pixel_vector;
typedef uint pair_vector;
#define WIDENED convert_uint
#else
typedef JOIN(ushort, VECTOR) pixel_vector;
typedef JOIN(uint, VECTOR) pair_vector;
#define WIDENED JOIN(convert_uint, VECTOR)
#endif
#define RUN (16 / VECTOR)  // vectors of 32 bytes, which neighbouring work-items load
#define PAIRS (CHANNELS / 2)
#define PITCH (PAIRS + 2)  // pairs of channels from a pixel to the next one: stores of a warp are in different banks
#define LOADS (PIXELS / VECTOR * PAIRS / ITEMS)  // of a work-item
#define STORES (PIXELS * CHANNELS / 4 / ITEMS)

// Pixels of an image: `high` x `wide`, `plane` in all; and of a padded one: `rows` x `columns`, `padded` in all.
typedef struct {
    long images, channels, high;
    divisor wide, plane;
    long rows;
    divisor columns, padded;
    long low_y, low_x, spread, borders, inner;
} padded_images;

#if FILTERS
// Filters of `taps` taps in rows of `wide`, and their place in `out`: rows of `across` taps, each of `inner` channels, with zeros
// after `wide` taps and `channels` channels.
typedef struct { long channels, inner, wide, across, row_step, channel_step, first_tap, tap_step; } filters;

// A work-group writes INNER channels for all taps of row r.
static inline void lay_out_other(__global const stored_other* restrict other, __global ushort* restrict out, const int number,
                                 const int item, const int length, const filters f) {
    const int inner = f.inner, parts = (inner + INNER - 1) / INNER, r = number / parts, c = number % parts * INNER + item % INNER;
    const int taps = length / inner, across = f.across;
    if (c >= inner) return;
    __global const stored_other* from = other + r * f.row_step + (c < f.channels ? c : 0) * f.channel_step + f.first_tap;
    __global ushort* to = out + (long)r * length + c;
    for (int tap = item / INNER; tap < taps; tap += ITEMS / INNER) {
        const int y = tap / across, x = tap - y * across;
        const bool there = c < f.channels && x < f.wide;
        to[(long)tap * inner] = there ? ROUNDED(from[(y * (int)f.wide + x) * (int)f.tap_step]) : (ushort)0;
    }
}
#define LAY_OUT_OTHER(number) lay_out_other(other, out + begin, number, item, length, form)
#else
// Row r is channel r of images (images, others, plane), and zeros; a work-item writes OTHER_VECTOR elements, which divides
// plane and length.
#if OTHER_VECTOR == 1
typedef ushort other_vector;
#else
typedef JOIN(ushort, OTHER_VECTOR) other_vector;
#endif

static inline void lay_out_other(__global const ushort* restrict other, __global ushort* restrict out, const int number, const int item,
                                 const int length, const int images, const int others, const divisor other_plane) {
    const int parts = (length + ITEMS * OTHER_VECTOR - 1) / (ITEMS * OTHER_VECTOR), r = number / parts;
    const int at = (number % parts * ITEMS + item) * OTHER_VECTOR, n = quotient(at, other_plane);
    if (at >= length) return;
    const int from = ((n < images ? n : 0) * others + r) * (int)other_plane.size + at - n * (int)other_plane.size;
    const other_vector given = *(__global const other_vector*)(other + (n < images ? from : 0));
    *(__global other_vector*)(out + (long)r * length + at) = n < images ? given : (other_vector)0;
}
#define LAY_OUT_OTHER(number) lay_out_other(other, out + begin, number, item, length, g.images, others, other_plane)
#endif

$kernel [ITEMS, 1, 1] unit_operands(read ushort source, read stored_other other, write ushort out, padded_images g,
        long begin, int length,
        filters form if FILTERS, int others if not FILTERS, divisor other_plane if not FILTERS) {
    __local uint square[PIXELS * PITCH] __attribute__((aligned(16)));
    __local int places[ITEMS], listed;
    const int item = get_local_id(0), number = get_group_id(0), channels = g.channels, inner = g.inner;
    const int plane = g.plane.size, count = g.images * plane;
    const int runs = (count + PIXELS - 1) / PIXELS, past = number - runs * ((inner + CHANNELS - 1) / CHANNELS);
    const int first = number % runs * PIXELS, channel = number / runs * CHANNELS;
    if (item == 0) listed = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (past < 0) {
        pair_vector loaded[LOADS];  // all under way before the first is stored
        for (int i = 0; i < LOADS; i++) {
            const int q = item + i * ITEMS, pair = q / RUN % PAIRS, c = channel + pair * 2;
            const int pixel = min(first + (q / (RUN * PAIRS) * RUN + q % RUN) * VECTOR, count - VECTOR), n = quotient(pixel, g.plane);
            __global const ushort* from = source + (n * channels * plane + pixel - n * plane);
            __global const ushort* low = from + min(c, channels - 1) * plane;
            __global const ushort* high = from + min(c + 1, channels - 1) * plane;
            const pair_vector upper = WIDENED(*(__global const pixel_vector*)high), lower = WIDENED(*(__global const pixel_vector*)low);
            loaded[i] = (c + 1 < channels ? upper << 16 : (pair_vector)0) | (c < channels ? lower : (pair_vector)0);
        }
        for (int i = 0; i < LOADS; i++) {
            const int q = item + i * ITEMS, pair = q / RUN % PAIRS, pixel = (q / (RUN * PAIRS) * RUN + q % RUN) * VECTOR;
            uint pairs[VECTOR] __attribute__((aligned(32)));
            *(pair_vector*)pairs = loaded[i];
            for (int j = 0; j < VECTOR; j++) square[(pixel + j) * PITCH + pair] = pairs[j];
        }
        if (item < PIXELS) {
            const int pixel = first + item, n = quotient(pixel, g.plane), at = pixel - n * plane, y = quotient(at, g.wide);
            const int row = g.low_y + y * (int)g.spread, column = g.low_x + (at - y * (int)g.wide.size) * (int)g.spread;
            const bool inside = pixel < count && row >= 0 && row < g.rows && column >= 0 && column < g.columns.size;
            places[item] = inside ? n * (int)g.padded.size + row * (int)g.columns.size + column : -1;
        }
    } else if (past < g.borders) {
        const int place = past * ITEMS + item, n = quotient(place, g.padded), at = place - n * (int)g.padded.size;
        const int row = quotient(at, g.columns), y = row - (int)g.low_y, x = at - row * (int)g.columns.size - (int)g.low_x;
        const int spread = g.spread;
        const bool inside = y >= 0 && x >= 0 && y % spread == 0 && x % spread == 0 && y / spread < g.high && x / spread < g.wide.size;
        if (n < g.images && !inside) places[atomic_inc(&listed)] = place;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (past < 0) {
        for (int i = 0; i < STORES; i++) {
            const int q = item + i * ITEMS, pixel = q / (CHANNELS / 4), c = q % (CHANNELS / 4), place = places[pixel];
            const uint2 four = *(__local const uint2*)(square + pixel * PITCH + c * 2);
            if (place >= 0 && channel + c * 4 < inner) *(__global uint2*)(out + (place * inner + channel + c * 4)) = four;
        }
    } else if (past < g.borders) {
        const int each = inner / 4, work = listed * each;
        for (int k = item; k < work; k += ITEMS) {
            const int at = k / each;
            *(__global uint2*)(out + (places[at] * inner + (k - at * each) * 4)) = (uint2)0;
        }
    } else {
        LAY_OUT_OTHER(past - (int)g.borders);
    }
}
