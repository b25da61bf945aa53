// The keys of a radix sort in one pass over the data for each digit of eight bits, and its memory: `work` has for each pass a counter
// of tickets, then for each row and pass the counts of the digits; `words` has for each pass, row and tile a word for each digit.

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
} sweep;

#define KEY_AT(x, i) ((key_word)((key_of(LOAD(x, i)) ^ g.flip) & KEY_MASK))
#define COUNTS_OF(number) (work + PASSES + (number) * PASSES * RADIX)
