// The positions of the true elements of a mask, for compaction.cl.
#define SOURCE __global const uchar* restrict mask
#define HOLDS(i) (mask[i] != 0)
#define TARGET __global long* restrict out
#define LIST(i, at) out[at] = (i);

