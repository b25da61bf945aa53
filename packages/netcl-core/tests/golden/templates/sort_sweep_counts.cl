// sort_sweep_counts/float32
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define GROUP 256
#define EACH 16
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// The keys of a radix sort in one pass over the data for each digit of eight bits, and its memory: `work` has for each pass a counter
// of tickets, then for each row and pass the counts of the digits; `words` has for each pass, row and tile a word for each digit.

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
typedef ulong key_word;
#define PASSES 8
#else
typedef uint key_word;
#define PASSES 4
#endif
#define RADIX 256
#define DIGIT(key, pass) ((uint)((key) >> 8 * (pass)) & (RADIX - 1))

typedef struct {
    long rows, extent, tiles, chunks, length, pass;
    ulong flip;
} sweep;

#define KEY_AT(x, i) ((key_word)((key_of(LOAD(x, i)) ^ g.flip) & KEY_MASK))
#define COUNTS_OF(number) (work + PASSES + (number) * PASSES * RADIX)
// Counts the digits of all passes in one pass over the data, and sets the words of all tiles to zero.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void digit_counts(
    __global const STORAGE *restrict x,
    __global uint *work,
    __global uint *words,
    const sweep g) {
    __local uint found[PASSES * RADIX];
    const uint item = get_local_id(0);
    const long number = get_group_id(0) / g.chunks, row = number * g.extent;
    const long head = get_group_id(0) % g.chunks * g.length, tail = min(g.extent, head + g.length);
    for (uint d = item; d < PASSES * RADIX; d += GROUP) found[d] = 0;
    const long all = g.rows * g.tiles * PASSES * RADIX;
    for (long i = get_global_id(0); i < all; i += get_global_size(0)) words[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (long begin = head + item; begin < tail; begin += GROUP * EACH) {
        key_word key[EACH];
        #pragma unroll
        for (uint k = 0; k < EACH; k++) key[k] = KEY_AT(x, row + min(begin + k * GROUP, tail - 1));
        #pragma unroll
        for (uint k = 0; k < EACH; k++)
            if (begin + k * GROUP < tail)
                for (uint pass = 0; pass < PASSES; pass++) atomic_inc(&found[pass * RADIX + DIGIT(key[k], pass)]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint d = item; d < PASSES * RADIX; d += GROUP)
        if (found[d]) atomic_add(COUNTS_OF(number) + d, found[d]);
}
