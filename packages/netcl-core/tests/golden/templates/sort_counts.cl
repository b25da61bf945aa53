// sort_counts/float32_chunks1
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define GROUP 256
#define EACH 16
#define FIRST 1
#define SWEPT 0
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// The keys of a radix sort of long rows, digit after digit of eight bits, and its memory. With SWEPT tiles, `work` has for each pass
// a counter of tickets, then for each row and pass the counts of the digits; `words` has for each pass, row and tile a word for
// each digit. Otherwise a row has chunks of `length` elements, and `counts` for each digit the counts of all chunks.

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
} sorting;

#define KEY_AT(x, i) ((key_word)((key_of(LOAD(x, i)) ^ g.flip) & KEY_MASK))
#define COUNT_OF(number, chunk, d) (((number) * RADIX + (d)) * g.chunks + (chunk))
#define COUNTS_OF(number) (work + PASSES + (number) * PASSES * RADIX)
// Counts the digits of all passes in one pass over the data, and sets the words of all tiles to zero; without SWEPT tiles the digits
// of one pass, in each chunk.
#define COUNTED 1
#define SHIFTED(pass) g.pass
#define KEY_OF(i) KEY_AT(x, row + (i))

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void digit_counts(
    __global const STORAGE *restrict x,
    __global int *restrict counts,
    const sorting g) {
    __local uint found[COUNTED * RADIX];
    const uint item = get_local_id(0);
    const long number = get_group_id(0) / g.chunks, chunk = get_group_id(0) % g.chunks, row = number * g.extent;
    const long head = chunk * g.length, tail = min(g.extent, head + g.length);
    for (uint d = item; d < COUNTED * RADIX; d += GROUP) found[d] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (long begin = head + item; begin < tail; begin += GROUP * EACH) {
        key_word key[EACH];
        #pragma unroll
        for (uint k = 0; k < EACH; k++) key[k] = KEY_OF(min(begin + k * GROUP, tail - 1));
        #pragma unroll
        for (uint k = 0; k < EACH; k++)
            if (begin + k * GROUP < tail)
                for (uint pass = 0; pass < COUNTED; pass++) atomic_inc(&found[pass * RADIX + DIGIT(key[k], SHIFTED(pass))]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint d = item; d < RADIX; d += GROUP) counts[COUNT_OF(number, chunk, d)] = found[d];
}
