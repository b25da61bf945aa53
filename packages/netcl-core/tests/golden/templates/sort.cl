// sort/float32_cpu
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define ALONE 1
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// The elements of merges: a key (see sort_keys.py) and the position that it came from.

#define SIGN 0x80000000U
#define KEY_MASK 0xffffffffUL
typedef uint real_bits;
#define TELLS(key) ((key) != SIGN && (key) != KEY_MASK)
static inline ulong key_of(const REAL v) {
    const real_bits bits = as_uint(v);
    if ((bits & ~SIGN) > 0x7f800000U) return KEY_MASK;
    return bits << 1 == 0 ? SIGN : (real_bits)(bits & SIGN ? ~bits : bits | SIGN);
}
static inline REAL value_of(const ulong key) {
    const real_bits bits = (real_bits)key;
    return as_float(bits & SIGN ? bits & ~SIGN : ~bits);
}
static inline int differ(const REAL v, const REAL w) {
    const real_bits one = as_uint(v), other = as_uint(w);
    return ((one != other) & ((one | other) << 1 != 0)) | ((one & ~SIGN) > 0x7f800000U);
}
#define DIFFER(v, w) differ(v, w)

#if defined(DTYPE_FLOAT64) || defined(DTYPE_INT64)
typedef ulong2 element;
#define KEY(e) ((e).x)
#define INDEX_OF(e) ((e).y)
#define ELEMENT(key, index) ((ulong2)((key), (index)))
#define LAST ((ulong2)(~0UL, ~0UL))
#define BEFORE(a, b) (KEY(a) < KEY(b))
#else
typedef ulong element;  // the key above the position
#define KEY(e) ((e) >> 32)
#define INDEX_OF(e) ((e) & 0xffffffffUL)
#define ELEMENT(key, index) ((key) << 32 | (index))
#define LAST (~0UL)
#define BEFORE(a, b) ((a) < (b))
#endif

// Stable merge sort of the rows of a matrix, and the use of sorted rows.
//
// Elements (sort_elements.cl) have a key, in an order that `flip` reverses, and the position that it came from, so that one stream is
// merged, and of equals the earlier comes first. `tiles` sorts stretches of a row, each `merge` joins
// neighbouring runs of `width` (its work-items find their share by a search along the diagonal: Odeh, Green, Mwassi, Shmueli
// and Birk: Merge Path. IPDPSW 2012), `unpack` writes values and positions.
//
// On a CPU a work-item sorts and merges by itself; elsewhere a group does, through local memory.

#define EIGHT 8

typedef struct {
    long rows, extent, tile, tiles, width, share;
    ulong flip;
} sorting;

// The number of elements from the first run among the first `diagonal` merged ones; of equal elements, the first run's come
// first.
#define DEFINE_PATH(SPACE, NAME) \
    static inline size_t NAME(SPACE const element* a, const size_t m, SPACE const element* b, const size_t n, \
                              const size_t diagonal) { \
        size_t low = diagonal > n ? diagonal - n : 0, high = min(diagonal, m); \
        while (low < high) { \
            const size_t middle = (low + high) / 2; \
            if (BEFORE(b[diagonal - 1 - middle], a[middle])) high = middle; \
            else low = middle + 1; \
        } \
        return low; \
    }
DEFINE_PATH(__global, path)

#define EXCHANGE(i) { \
    const element p = e[i], q = e[i + 1]; \
    const int less = BEFORE(q, p); \
    e[i] = less ? q : p; \
    e[i + 1] = less ? p : q; \
}
// Odd-even transposition: neighbours only, so that equals keep their order.
static inline void sort_eight(element e[EIGHT]) {
    for (int round = 0; round < EIGHT / 2; round++) {
        EXCHANGE(0) EXCHANGE(2) EXCHANGE(4) EXCHANGE(6)
        EXCHANGE(1) EXCHANGE(3) EXCHANGE(5)
    }
}

// Outputs [p, end) of the runs that begin at `start`.
static inline void merge_runs(__global const element* restrict from, __global element* restrict to, const size_t start,
                              const size_t width, const size_t extent, size_t p, const size_t end) {
    const size_t middle = min(start + width, extent), stop = min(start + 2 * width, extent);
    size_t i = start + path(from + start, middle - start, from + middle, stop - middle, p - start);
    size_t j = middle + (p - start) - (i - start);
    for (; p < end && i < middle && j < stop; p++) {
        const element a = from[i], b = from[j];
        const int second = BEFORE(b, a);
        to[p] = second ? b : a;
        i += !second;
        j += second;
    }
    for (; p < end && i < middle; p++) to[p] = from[i++];
    for (; p < end; p++) to[p] = from[j++];
}

// Sorts tiles of a row into `one` or `two`: into `two` if the tile takes an odd number of merges.
__kernel void tiles(
    __global const STORAGE *restrict x,
    __global element *restrict one,
    __global element *restrict two,
    const sorting g) {
    const size_t head = get_global_id(0) * g.share, tail = min((size_t)(g.rows * g.tiles), (size_t)(head + g.share));
    for (size_t t = head; t < tail; t++) {
        const size_t row = t / g.tiles * g.extent, start = t % g.tiles * g.tile;
        const size_t stop = min((size_t)g.extent, (size_t)(start + g.tile));
        for (size_t i = start; i < stop; i += EIGHT) {
            element e[EIGHT];
            const size_t count = min((size_t)EIGHT, (size_t)(stop - i));
            for (size_t k = 0; k < EIGHT; k++)
                e[k] = k < count ? ELEMENT((key_of(LOAD(x, row + i + k)) ^ g.flip) & KEY_MASK, i + k) : LAST;
            sort_eight(e);
            for (size_t k = 0; k < count; k++) one[row + i + k] = e[k];
        }
        __global element* from = one + row + start;
        __global element* to = two + row + start;
        for (size_t width = EIGHT; width < (size_t)g.width; width *= 2) {
            for (size_t s = 0; s < stop - start; s += 2 * width)
                merge_runs(from, to, s, width, stop - start, s, min(s + 2 * width, stop - start));
            __global element* other = from;
            from = to;
            to = other;
        }
    }
}

__kernel void merge(
    __global const element *restrict from,
    __global element *restrict to,
    const sorting g) {
    const size_t head = get_global_id(0) * g.share, tail = min((size_t)(g.rows * g.tiles), (size_t)(head + g.share));
    for (size_t t = head; t < tail; t++) {
        const size_t row = t / g.tiles * g.extent;
        const size_t end = min((size_t)g.extent, (size_t)((t % g.tiles + 1) * g.tile));
        for (size_t p = t % g.tiles * g.tile; p < end;) {
            const size_t start = p / (2 * g.width) * (2 * g.width), upto = min(end, (size_t)(start + 2 * g.width));
            merge_runs(from + row, to + row, start, g.width, g.extent, p, upto);
            p = upto;
        }
    }
}

// The first `tile` of each sorted row.
__kernel void unpack(
    __global const STORAGE *restrict x,
    __global const element *restrict from,
    __global STORAGE *restrict values,
    __global long *restrict indices,
    const sorting g) {
    const size_t head = get_global_id(0) * g.share, tail = min((size_t)(g.rows * g.tile), (size_t)(head + g.share));
    size_t row = head / g.tile, column = head % g.tile;
    for (size_t p = head; p < tail; p++) {
        const element e = from[row * g.extent + column];
        const ulong key = (KEY(e) ^ g.flip) & KEY_MASK;
        indices[p] = INDEX_OF(e);
        if (TELLS(key)) STORE(value_of(key), values, p);
        else STORE(LOAD(x, row * g.extent + INDEX_OF(e)), values, p);
        if (++column == g.tile) column = 0, row++;
    }
}
