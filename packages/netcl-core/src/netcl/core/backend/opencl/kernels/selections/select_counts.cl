// The tile algorithm of radix select, the most significant digit first: COUNT counts a digit of the keys of a tile, elements first ..
// last - 1 of a row, that are TAKEN. What was counted goes on in one of two ways. A work-group that has a whole row chooses the next
// digit in local memory (select_rows.cl); the tables of a row's many tiles are added up by launches (select.cl).

${keys}

#define DIGITS 256  // of eight bits
#define KEY_AT(i) ((key_of(LOAD(x, row + (i))) ^ g.flip) & KEY_MASK)
#define BEGINS_WITH(number, prefix, shift) (((number) ^ (prefix)) >> (shift) >> 8 == 0)  // in two steps, as a shift by 64 is none

$if ALONE
#define COUNT(table, size, first, last, TAKEN, DIGIT) { \
        for (int d = 0; d < (size); d++) table[d] = 0; \
        for (POSITION i = first; i < (last); i++) { \
            const ulong key = KEY_AT(i); \
            if (TAKEN) table[(DIGIT) & (DIGITS - 1)]++; \
        } \
    }
$else
#define COUNT(table, size, first, last, TAKEN, DIGIT) { \
        for (uint d = item; d < (size); d += GROUP) table[d] = 0; \
        barrier(CLK_LOCAL_MEM_FENCE); \
        for (POSITION begin = (first) + item; begin < (last); begin += EACH * GROUP) { \
            ulong keys[EACH];  /* all read before the first is counted */ \
            for (uint k = 0; k < EACH; k++) keys[k] = KEY_AT(min(begin + k * GROUP, (last) - 1)); \
            for (uint k = 0; k < EACH; k++) { \
                const ulong key = keys[k]; \
                const POSITION i = begin + k * GROUP; \
                if (i < (last) && (TAKEN)) atomic_inc(&table[(DIGIT) & (DIGITS - 1)]); \
            } \
        } \
        barrier(CLK_LOCAL_MEM_FENCE); \
    }
$end
