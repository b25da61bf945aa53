// The copies of the software twins of matrix units, in plain OpenCL C: a barrier ends them.

#define EACH_FRAGMENT
#define EACH_CHUNK
#define ROLLED
#define COPIES_END
#define COPIES_WAIT
#define ALIGNED_TILES
#define NOT_INLINED inline

static inline float element(const ushort x) { return ELEMENT_X; }

static inline void copy_chunk(__local ushort* to, __global const ushort* from, const int count) {
    for (int i = 0; i < 8; i++) to[i] = i < count ? from[i] : (ushort)0;
}

static inline void copy_whole_chunk(__local ushort* to, __global const ushort* from) {
    for (int i = 0; i < 8; i++) to[i] = from[i];
}

#define STORE_PAIR(first, second, out, at) STORE(first, out, at), STORE(second, out, (at) + 1)

