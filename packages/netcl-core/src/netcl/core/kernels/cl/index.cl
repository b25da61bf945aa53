// Data-dependent addressing along the middle of three dimensions (before, axis, after).
//
// take, gather            elements move as bits of BYTES bytes. One work-item: `block` rows of the result times a stretch
//                         of `width` columns.
// take_gradient,          sums in REAL, without atomics: a work-item owns a range of rows of the result times a stretch of
// gather_gradient         columns, and walks the indices in their order.
//
// Negative indices count from the end; what is out of range is clamped, and raises `code` in the flag.

typedef struct {
    long before, axis, after, count;
    long block, width;
} indexing;

static inline long checked(long i, const long axis, __global int* flag, const int code) {
    if (i < 0) i += axis;
    if (i < 0 || i >= axis) {
        atomic_max(flag, code);
        i = i < 0 ? 0 : axis - 1;
    }
    return i;
}

#ifdef BYTES
#if BYTES == 1
typedef uchar element;
#elif BYTES == 2
typedef ushort element;
#elif BYTES == 4
typedef uint element;
#else
typedef ulong element;
#endif

#define EACH_ROW \
    const size_t first = get_global_id(1) * g.block, last = min((size_t)(g.before * g.count), (size_t)(first + g.block)); \
    const long begin = get_global_id(0) * g.width, end = min(g.after, begin + g.width); \
    for (size_t row = first; row < last; row++)

__kernel void take(__global const element* restrict x, __global const INDEX* restrict indices, __global element* restrict out,
                   __global int* flag, const int code, const indexing g) {
    EACH_ROW {
        const size_t place = (row / g.count) * g.axis + checked(indices[row % g.count], g.axis, flag, code);
        __global const element* from = x + place * g.after;
        __global element* to = out + row * g.after;
        for (long c = begin; c < end; c++) to[c] = from[c];
    }
}

__kernel void gather(__global const element* restrict x, __global const INDEX* restrict indices,
                     __global element* restrict out, __global int* flag, const int code, const indexing g) {
    EACH_ROW {
        __global const element* from = x + (row / g.count) * g.axis * g.after;
        for (long c = begin; c < end; c++) {
            const size_t place = checked(indices[row * g.after + c], g.axis, flag, code);
            out[row * g.after + c] = from[place * g.after + c];
        }
    }
}
#else

__kernel void take_gradient(__global const STORAGE* restrict grad, __global const INDEX* restrict indices,
                            __global REAL* restrict out, __global int* flag, const int code, const indexing g) {
    const long first = get_global_id(1) * g.block, last = min(g.axis, first + g.block);
    const long begin = get_global_id(0) * g.width, end = min(g.after, begin + g.width);
    const size_t before = get_global_id(2);
    grad += before * g.count * g.after;
    out += before * g.axis * g.after;
    for (long row = first; row < last; row++)
        for (long c = begin; c < end; c++) out[row * g.after + c] = 0;
    for (long i = 0; i < g.count; i++) {
        const long row = checked(indices[i], g.axis, flag, code);
        if (row >= first && row < last)
            for (long c = begin; c < end; c++) out[row * g.after + c] += LOAD(grad, i * g.after + c);
    }
}

__kernel void gather_gradient(__global const STORAGE* restrict grad, __global const INDEX* restrict indices,
                              __global REAL* restrict out, __global int* flag, const int code, const indexing g) {
    const long begin = get_global_id(0) * g.width, end = min(g.after, begin + g.width);
    const size_t before = get_global_id(2);
    grad += before * g.count * g.after;
    indices += before * g.count * g.after;
    out += before * g.axis * g.after;
    for (long row = 0; row < g.axis; row++)
        for (long c = begin; c < end; c++) out[row * g.after + c] = 0;
    for (long i = 0; i < g.count; i++)
        for (long c = begin; c < end; c++) {
            const long row = checked(indices[i * g.after + c], g.axis, flag, code);
            out[row * g.after + c] += LOAD(grad, i * g.after + c);
        }
}

// Sums that were kept in REAL, rounded to the storage once.
__kernel void narrow(__global const REAL* restrict x, __global STORAGE* restrict out, const long size, const long block) {
    const size_t first = get_global_id(0) * block, last = min((size_t)size, (size_t)(first + block));
    for (size_t i = first; i < last; i++) STORE(x[i], out, i);
}
#endif
