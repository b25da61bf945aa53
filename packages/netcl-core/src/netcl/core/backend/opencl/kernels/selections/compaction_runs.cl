// The first of each run of equal elements and its position, for compaction.cl. Keys (sort_keys.py) are compared, since a device may
// treat subnormal numbers as zero; every NaN is distinct.

$keys

#define SOURCE __global const STORAGE* restrict x
#define HOLDS(i) \
    (((i) == 0) | (key_of(LOAD(x, i)) != key_of(LOAD(x, max((long)(i) - 1, 0L)))) | (LOAD(x, i) != LOAD(x, i)))
#define TARGET __global STORAGE* restrict values, __global long* restrict starts
#define LIST(i, at) STORE(LOAD(x, i), values, at); starts[at] = (i);

