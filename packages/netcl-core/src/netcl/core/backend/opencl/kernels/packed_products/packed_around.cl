// Around a product of few rows: x may be normalized, and the sum of a row of the matrix gets a bias, a gate and a residual.

$if NORM
#define NUMBERS(row, at) (VLOAD((row) + (at)) * inverse * VLOAD(norm + (at)))
#define NORM_OF_X norm
$else
#define NUMBERS(row, at) VLOAD((row) + (at))
#define NORM_OF_X x
$end

// The product of one row of x with a row of the matrix, whose numbers are scaled first: other orders have NaN where numbers of
// x are infinite, and infinities where products with unscaled quants are.
static inline float of_floats(__global const STORAGE* row, __global const STORAGE* norm, const float inverse, ${declared},
        const size_t block, const long groups) {
    float8 sum = 0;
    for (long i = 0; i < groups; i++) {
        const float16 w = numbers(${names}, block + i / GROUPS, (int)(i % GROUPS));
        sum += w.lo * NUMBERS(row, i * 16) + UPPER(w) * NUMBERS(row, i * 16 + 8);
    }
    const float4 four = sum.lo + sum.hi;
    return (four.x + four.y) + (four.z + four.w);
}

static inline float gated(const float x) {
    const float inner = GATE == 2 ? 1.5957691216f * (x + 0.044715f * x * x * x) : x;
    return x / (1 + exp(-inner));
}
