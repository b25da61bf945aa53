// The positions of the true elements of a mask, for compaction.cl.
#define HOLDS(i) (mask[i] != 0)
#define LIST(i, at) out[at] = (i);

