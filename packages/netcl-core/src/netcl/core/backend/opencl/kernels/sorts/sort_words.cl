// The keys of a radix sort of long rows, digit after digit of eight bits, and its memory. With SWEPT tiles, `work` has for each pass
// a counter of tickets, then for each row and pass the counts of the digits; `words` has for each pass, row and tile a word for
// each digit. Otherwise a row has chunks of `length` elements, and `counts` for each digit the counts of all chunks.

${keys}

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
