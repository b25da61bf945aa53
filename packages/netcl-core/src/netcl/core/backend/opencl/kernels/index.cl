// Data-dependent addressing along the middle of three dimensions (before, axis, after).
//
// A row is one index's share of `after` elements; one work-item does `block` rows times a stretch of `width` columns.
// `take`, `put` and their companions have one index for a whole row, `gather` and `scatter` one for every element.
//
// take, gather            elements move as bits of BYTES bytes.
// put, scatter            writing; where a position is named twice the last wins. Many cores: `claim` leaves the largest
//                         place of all indices that name a position in `winner`, the same whatever the order of the
//                         work-items, and only that place writes. Few cores: put_in_order, scatter_in_order.
// .._in_order,            a work-item owns a range of rows of the result times a stretch of columns, and walks all indices.
// .._gradient             Gradients are sums in REAL, from zero on, or (`keep`) from what is there. `total` limits the
//                         indices where the last of `before` parts has fewer.
// sorted_gradient         many cores and many indices: with the indices sorted, where they came from in `order`, the first
//                         work-item of equal ones adds up them all, in the order in which they came.
//
// Negative indices count from the end; what is out of range is clamped, and raises `code` in the flag.

typedef struct {
    long before, axis, after, count;
    long block, width, keep, total;
} indexing;

static inline long clamped(long i, const long axis) {
    if (i < 0) i += axis;
    return i < 0 ? 0 : (i >= axis ? axis - 1 : i);
}

static inline long checked(const long i, const long axis, __global int* flag, const int code) {
    if (i < -axis || i >= axis) atomic_max(flag, code);
    return clamped(i, axis);
}

// For each part `outer`, a work-item's own rows [first, last) and columns [begin, end). (Some devices have no more than
// 65535 groups in the second and the third dimension.)
#define OWN_ROWS \
    const long first = get_global_id(1) * g.block, last = min(g.axis, (long)(first + g.block)); \
    const long begin = get_global_id(0) * g.width, end = min(g.after, begin + g.width); \
    for (long outer = get_global_id(2); outer < g.before; outer += get_global_size(2))
#define COUNT min(g.count, g.total - outer * g.count)
#define FROM(x) ((x) + outer * g.count * g.after)
#define TO(x) ((x) + outer * g.axis * g.after)

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

// `row` counts all rows, `i` those of one `outer`.
#define EACH_ROW \
    const size_t rows = g.before * g.count, first = get_global_id(1) * g.block, last = min(rows, (size_t)(first + g.block)); \
    const long begin = get_global_id(0) * g.width, end = min(g.after, begin + g.width); \
    size_t outer = first / g.count; \
    long i = first % g.count; \
    for (size_t row = first; row < last; row++, i + 1 == g.count ? (i = 0, outer++) : (size_t)i++)

__kernel void take(__global const element* restrict x, __global const INDEX* restrict indices, __global element* restrict out,
                   __global int* flag, const int code, const indexing g) {
    EACH_ROW {
        const size_t place = outer * g.axis + checked(indices[i], g.axis, flag, code);
        __global const element* from = x + place * g.after;
        __global element* to = out + row * g.after;
        for (long c = begin; c < end; c++) to[c] = from[c];
    }
}

__kernel void gather(__global const element* restrict x, __global const INDEX* restrict indices,
                     __global element* restrict out, __global int* flag, const int code, const indexing g) {
    EACH_ROW {
        __global const element* from = x + outer * g.axis * g.after;
        for (long c = begin; c < end; c++) {
            const size_t place = checked(indices[row * g.after + c], g.axis, flag, code);
            out[row * g.after + c] = from[place * g.after + c];
        }
    }
}

__kernel void claim(__global const INDEX* restrict indices, __global int* winner, __global int* flag, const int code,
                    const indexing g) {
    EACH_ROW {
        for (long c = begin; c < end; c++) {
            const size_t place = checked(indices[row * g.after + c], g.axis, flag, code);
            atomic_max(winner + (outer * g.axis + place) * g.after + c, (int)i);
        }
    }
}

__kernel void put(__global const element* restrict x, __global const INDEX* restrict indices,
                  __global const int* restrict winner, __global element* restrict out, const indexing g) {
    EACH_ROW {
        const size_t place = clamped(indices[i], g.axis);
        if (winner[place] != i) continue;
        __global const element* from = x + row * g.after;
        __global element* to = out + (outer * g.axis + place) * g.after;
        for (long c = begin; c < end; c++) to[c] = from[c];
    }
}

__kernel void scatter(__global const element* restrict x, __global const INDEX* restrict indices,
                      __global const int* restrict winner, __global element* restrict out, const indexing g) {
    EACH_ROW {
        for (long c = begin; c < end; c++) {
            const size_t at = row * g.after + c;
            const size_t place = (outer * g.axis + clamped(indices[at], g.axis)) * g.after + c;
            if (winner[place] == i) out[place] = x[at];
        }
    }
}

__kernel void put_in_order(__global const element* restrict x, __global const INDEX* restrict indices,
                           __global element* restrict out, __global int* flag, const int code, const indexing g) {
    OWN_ROWS {
        const long count = COUNT;
        __global const element* from = FROM(x);
        __global element* to = TO(out);
        for (long i = 0; i < count; i++) {
            const long row = checked(indices[i], g.axis, flag, code);
            if (row >= first && row < last)
                for (long c = begin; c < end; c++) to[row * g.after + c] = from[i * g.after + c];
        }
    }
}

__kernel void scatter_in_order(__global const element* restrict x, __global const INDEX* restrict indices,
                               __global element* restrict out, __global int* flag, const int code, const indexing g) {
    OWN_ROWS {
        const long count = COUNT;
        __global const element* from = FROM(x);
        __global const INDEX* own = FROM(indices);
        __global element* to = TO(out);
        for (long i = 0; i < count; i++)
            for (long c = begin; c < end; c++) {
                const long row = checked(own[i * g.after + c], g.axis, flag, code);
                if (row >= first && row < last) to[row * g.after + c] = from[i * g.after + c];
            }
    }
}
#else

#define CLEAR(to) \
    if (!g.keep) \
        for (long row = first; row < last; row++) \
            for (long c = begin; c < end; c++) to[row * g.after + c] = 0;

__kernel void take_gradient(__global const STORAGE* restrict grad, __global const INDEX* restrict indices,
                            __global REAL* restrict out, __global int* flag, const int code, const indexing g) {
    OWN_ROWS {
        const long count = COUNT;
        __global const STORAGE* from = FROM(grad);
        __global REAL* to = TO(out);
        CLEAR(to)
        for (long i = 0; i < count; i++) {
            const long row = checked(indices[i], g.axis, flag, code);
            if (row >= first && row < last)
                for (long c = begin; c < end; c++) to[row * g.after + c] += LOAD(from, i * g.after + c);
        }
    }
}

__kernel void gather_gradient(__global const STORAGE* restrict grad, __global const INDEX* restrict indices,
                              __global REAL* restrict out, __global int* flag, const int code, const indexing g) {
    OWN_ROWS {
        const long count = COUNT;
        __global const STORAGE* from = FROM(grad);
        __global const INDEX* own = FROM(indices);
        __global REAL* to = TO(out);
        CLEAR(to)
        for (long i = 0; i < count; i++)
            for (long c = begin; c < end; c++) {
                const long row = checked(own[i * g.after + c], g.axis, flag, code);
                if (row >= first && row < last) to[row * g.after + c] += LOAD(from, i * g.after + c);
            }
    }
}

__kernel void sorted_gradient(__global const STORAGE* restrict grad, __global const int* restrict places,
                              __global const long* restrict order, __global REAL* restrict out, const indexing g) {
    const long c = get_global_id(0);
    for (long first = get_global_id(1); first < g.count; first += get_global_size(1)) {
        const long row = places[first];
        if (c >= g.after || (first > 0 && places[first - 1] == row)) continue;
        for (long outer = get_global_id(2); outer < g.before; outer += get_global_size(2)) {
            __global const STORAGE* from = FROM(grad);
            __global REAL* to = TO(out) + row * g.after + c;
            REAL sum = *to;
            for (long i = first; i < g.count && places[i] == row; i++) sum += LOAD(from, order[i] * g.after + c);
            *to = sum;
        }
    }
}
#endif
