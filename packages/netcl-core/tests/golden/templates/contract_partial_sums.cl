// contract_partial_sums/float32
#define DTYPE_FLOAT32 1
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// add_parts  out = the sum of `splits` partial results, in order, so that it does not depend on scheduling.

__kernel LOOPS void add_parts(__global const REAL* restrict parts, __global STORAGE* restrict out, const long size, const long splits,
                        const long block) {
    const size_t first = get_global_id(0) * block, last = min((size_t)size, (size_t)(first + block));
    for (size_t i = first; i < last; i++) {
        REAL sum = parts[i];
        for (size_t s = 1; s < (size_t)splits; s++) sum += parts[s * size + i];
        STORE(sum, out, i);
    }
}
