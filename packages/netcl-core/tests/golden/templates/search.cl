// search/float32_cpu
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
// Binary search in sorted rows, counts between sorted edges, and elements put to positions that are all different.
// One work-item: `share` elements; `rows` rows of `extent` (the sequence, the edges, the result) and of `width` (x).

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

typedef struct {
    long rows, extent, width, share, right, copies;
} searching;

#define EACH_ELEMENT \
    const size_t head = get_global_id(0) * g.share, tail = min((size_t)(g.rows * g.width), (size_t)(head + g.share)); \
    for (size_t p = head; p < tail; p++)

// The first position with a key not below `key` (`right`: is above it).
static inline long bound(__global const STORAGE* restrict sorted, const long extent, const ulong key, const long right) {
    long low = 0, high = extent;
    while (low < high) {
        const long middle = (low + high) / 2;
        const ulong found = key_of(LOAD(sorted, middle));
        if (found < key || (right && found == key)) low = middle + 1;
        else high = middle;
    }
    return low;
}

__kernel void search(
    __global const STORAGE *restrict sorted,
    __global const STORAGE *restrict x,
    __global long *restrict out,
    const searching g,
    const long shared) {
    EACH_ELEMENT {
        const size_t row = shared ? 0 : p / g.width;
        out[p] = bound(sorted + row * g.extent, g.extent, key_of(LOAD(x, p)), g.right);
    }
}

// Into `copies` tables of counts, which are added up later; the last edge belongs to the last bin.
__kernel void count(
    __global const STORAGE *restrict x,
    __global const STORAGE *restrict edges,
    __global int *restrict counts,
    const searching g) {
    const long bins = g.extent - 1;
    const ulong last = key_of(LOAD(edges, bins));
    __global int* table = counts + get_global_id(0) % g.copies * bins;
    EACH_ELEMENT {
        const ulong key = key_of(LOAD(x, p));
        const long bin = key == last ? bins : bound(edges, g.extent, key, 1);
        if (bin > 0 && key <= last) {
#ifdef ALONE
            table[bin - 1]++;
#else
            atomic_inc(table + bin - 1);
#endif
        }
    }
}

__kernel void put(
    __global const STORAGE *restrict x,
    __global const long *restrict indices,
    __global STORAGE *restrict out,
    const searching g) {
    EACH_ELEMENT {
        const long to = indices[p];
        if (to >= 0 && to < g.extent) STORE(LOAD(x, p), out, p / g.width * g.extent + to);
    }
}
