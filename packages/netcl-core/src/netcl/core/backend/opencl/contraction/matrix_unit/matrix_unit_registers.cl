// A multiply-accumulate on fragments in registers, the text of the unit's row in the table.

#define UNIT_MEMORY(some)
#ifndef COPIES_WAIT
#define COPIES_WAIT COPIES_WAIT_FOR(AHEAD - 1)
#endif
#define MULTIPLY_ACCUMULATE(sums, a, b) multiply_accumulate(sums, a, b)

static inline void multiply_accumulate(SUM* sums, const ELEMENT* a, const ELEMENT* b) {
    ${multiply_accumulate}
}
