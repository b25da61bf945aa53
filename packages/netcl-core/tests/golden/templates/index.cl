// index/take_uint8_int32
#pragma OPENCL FP_CONTRACT OFF
#define BYTES 1
#define INDEX int
#define REPORT(code, value, at, size) if (!atomic_cmpxchg(flag, 0, code)) { __global long* what = (__global long*)flag; flag[1] = 0; what[1] = value; what[2] = at; what[3] = size; }
#define LOOPS __attribute__((vec_type_hint(float16)))
// Data-dependent addressing along the middle of three dimensions (before, axis, after): the common part of the kernels
// in index_*.cl.
//
// A row is one index's share of `after` elements; one work-item does `block` rows times a stretch of `width` columns.
// take, put and their gradients have one index for a whole row, gather and scatter one for every element.
//
// take, gather, put, scatter   move elements as bits. If a position is named twice, the last index wins: on devices with
//                              many cores only the index that `claim` left in `winner` writes, on others (.._in_order) a
//                              work-item owns a range of rows of the result times a stretch of columns.
// .._gradient                  add in REAL. `total` limits the indices if the last of `before` parts has fewer.
//
// Negative indices count from the end; an index out of range is clamped, and reported under `code` in the flag. With a
// negative `code` negative indices are out of range, too.

typedef struct {
    long before, axis, after, count;
    long block, width, keep, total;
} indexing;

static inline long clamped(long i, const long axis) {
    if (i < 0) i += axis;
    return i < 0 ? 0 : (i >= axis ? axis - 1 : i);
}

// `at` is the position of `i` among all indices.
static inline long checked(const long i, const long at, const long axis, __global int* flag, const int code) {
    if (i < (code < 0 ? 0 : -axis) || i >= axis) REPORT(abs(code), i, at, axis)
    return clamped(i, axis);
}

// `row` counts all rows, `i` the rows of one `outer`.
#define EACH_ROW \
    const size_t rows = g.before * g.count, first = get_global_id(1) * g.block, last = min(rows, (size_t)(first + g.block)); \
    const long begin = get_global_id(0) * g.width, end = min(g.after, begin + g.width); \
    size_t outer = first / g.count; \
    long i = first % g.count; \
    for (size_t row = first; row < last; row++, i + 1 == g.count ? (i = 0, outer++) : (size_t)i++)

// For each part `outer`, a work-item's own rows [first, last) and columns [begin, end). (Some devices have no more than
// 65535 groups in the second and the third dimension.)
#define OWN_ROWS \
    const long first = get_global_id(1) * g.block, last = min(g.axis, (long)(first + g.block)); \
    const long begin = get_global_id(0) * g.width, end = min(g.after, begin + g.width); \
    for (long outer = get_global_id(2); outer < g.before; outer += get_global_size(2))
#define COUNT min(g.count, g.total - outer * g.count)
#define FROM(x) ((x) + outer * g.count * g.after)
#define TO(x) ((x) + outer * g.axis * g.after)

// Sums of gradients begin with zero, or (`keep`) with the values that are there.
#define CLEAR(to) \
    if (!g.keep) \
        for (long row = first; row < last; row++) \
            for (long c = begin; c < end; c++) to[row * g.after + c] = 0;
// Elements that are moved as bits of BYTES bytes.

#if BYTES == 1
typedef uchar element;
#elif BYTES == 2
typedef ushort element;
#elif BYTES == 4
typedef uint element;
#elif BYTES == 16
typedef uint4 element;
#else
typedef ulong element;
#endif
// Copies the rows that the indices name.
__kernel void take(
    __global const element *restrict x,
    __global const INDEX *restrict indices,
    __global element *restrict out,
    __global int *flag,
    const int code,
    const indexing g) {
#ifdef ALONE
    if (g.after == 1) {  // single elements, many per work-item
        const size_t begin = get_global_id(1) * g.block, end = min((size_t)(g.before * g.count), (size_t)(begin + g.block));
        for (size_t row = begin; row < end;) {
            const size_t outer = row / g.count, i = row % g.count, run = min((size_t)(g.count - i), end - row);
            __global const element* from = x + outer * g.axis;
            for (size_t k = 0; k < run; k++) {
                long j = indices[i + k];
                if ((ulong)j >= (ulong)g.axis) j = checked(j, i + k, g.axis, flag, code);
                out[row + k] = from[j];
            }
            row += run;
        }
        return;
    }
#endif
    EACH_ROW {
        const size_t position = outer * g.axis + checked(indices[i], i, g.axis, flag, code);
        __global const element* from = x + position * g.after;
        __global element* to = out + row * g.after;
        for (long c = begin; c < end; c++) to[c] = from[c];
    }
}
