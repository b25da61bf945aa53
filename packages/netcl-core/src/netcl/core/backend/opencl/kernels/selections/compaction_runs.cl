// The first of each run of equal elements and, with STARTS, its position, for compaction.cl. Bits are compared (sort_keys.py), since a
// device may treat subnormal numbers as zero; every NaN is distinct.

${keys}

#define HOLDS(i) (((i) == 0) | DIFFER(LOAD(x, i), LOAD(x, max((long)(i) - 1, 0L))))
$if STARTS
#define LIST(i, at) STORE(LOAD(x, i), values, at); starts[at] = (i);
$else
#define LIST(i, at) STORE(LOAD(x, i), values, at);
$end

