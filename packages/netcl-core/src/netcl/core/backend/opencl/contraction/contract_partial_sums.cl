// add_parts  out = the sum of `splits` partial results, in order, so that it does not depend on scheduling: a work-item adds `block`
//            results, or with OF_FOUR four adjacent ones, of which there are a multiple of four.

#ifdef OF_FOUR
#define REAL4 JOIN(REAL, 4)
__kernel void add_parts(__global const REAL4* restrict parts, __global STORAGE* restrict out, const long size, const long splits,
                        const long block) {
    const size_t i = get_global_id(0), fours = size / 4;
    REAL4 sum = parts[i];
    for (size_t s = 1; s < (size_t)splits; s++) sum += parts[s * fours + i];
#if defined(DTYPE_FLOAT16) || defined(DTYPE_BFLOAT16)
    STORE(sum.x, out, i * 4);
    STORE(sum.y, out, i * 4 + 1);
    STORE(sum.z, out, i * 4 + 2);
    STORE(sum.w, out, i * 4 + 3);
#else
    *(__global REAL4*)(out + i * 4) = sum;
#endif
}
#else
__kernel LOOPS void add_parts(__global const REAL* restrict parts, __global STORAGE* restrict out, const long size, const long splits,
                        const long block) {
    const size_t first = get_global_id(0) * block, last = min((size_t)size, (size_t)(first + block));
    for (size_t i = first; i < last; i++) {
        REAL sum = parts[i];
        for (size_t s = 1; s < (size_t)splits; s++) sum += parts[s * size + i];
        STORE(sum, out, i);
    }
}
#endif
