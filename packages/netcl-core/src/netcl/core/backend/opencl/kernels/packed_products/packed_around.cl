// Around a product of few rows: x may be normalized, and the sum of a row of the matrix gets a bias, a gate and a residual.

$if NORM
#define NUMBERS(row, at) (VLOAD((row) + (at)) * inverse * VLOAD(norm + (at)))
$else
#define NUMBERS(row, at) VLOAD((row) + (at))
$end

static inline float gated(const float x) {
    const float inner = GATE == 2 ? 1.5957691216f * (x + 0.044715f * x * x * x) : x;
    return x / (1 + exp(-inner));
}
