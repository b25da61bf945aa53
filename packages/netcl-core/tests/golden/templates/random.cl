// random/uniform_float32_8
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define KIND_UNIFORM 1
#define LANES 8
#define SHIFT 8
#define SCALE 0x1p-24f
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3. SC 2011).
//
// Key: state[0] (seed); counter: state[1] (base) + offset + i / 4 in its two low words, zero above; element i is word i % 4.
// One work-item: `block` times LANES counters, LANES side by side: 8, or 1 so that accesses of GPUs are coalesced. Sums and products only, in one order, so that NumPy
// finds the same bits; sqrt alone may differ in the last place.

#if LANES == 8
typedef uint8 words;
typedef int8 whole;
typedef float8 reals;
#define INDICES ((uint8)(0, 1, 2, 3, 4, 5, 6, 7))
#define CARRY(less) (-as_uint8(less))  // a comparison of vectors gives -1
#define WORDS_OF(x) as_uint8(x)
#define WHOLE_OF(x) convert_int8(x)
#define REALS_OF(x) convert_float8(x)
#define AS_REALS(x) as_float8(x)
#define PUT(x, values) vstore8(x, 0, values)
#define MULTIPLY(x, factor, high, low) const words high = mul_hi(x, (words)factor), low = x * factor
#else
typedef uint words;
typedef int whole;
typedef float reals;
#define INDICES 0u
#define CARRY(less) ((uint)(less))
#define WORDS_OF(x) as_uint(x)
#define WHOLE_OF(x) convert_int(x)
#define REALS_OF(x) convert_float(x)
#define AS_REALS(x) as_float(x)
#define PUT(x, values) (values)[0] = (x)
#define MULTIPLY(x, factor, high, low) const ulong low##_high = (ulong)(x) * factor; const uint high = low##_high >> 32, low = low##_high
#endif

typedef struct {
    long offset, size, block, low;
    ulong range;
} drawing;

// Trap: vectors of eight 64-bit elements (their conversions at least) are wrong on PoCL 3.0, without a word; so the
// products are made of 32-bit halves and the counter carries by hand.
static inline void philox(const ulong key, const ulong counter, words word[4]) {
    const uint start = (uint)counter;
    words c0 = start + INDICES;
    words c1 = (uint)(counter >> 32) + CARRY(c0 < start), c2 = 0, c3 = 0;
    uint k0 = (uint)key, k1 = (uint)(key >> 32);
    for (int round = 0; round < 10; round++) {
        MULTIPLY(c0, 0xD2511F53u, high0, low0);
        MULTIPLY(c2, 0xCD9E8D57u, high1, low1);
        c0 = high1 ^ c1 ^ k0;
        c2 = high0 ^ c3 ^ k1;
        c1 = low1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    word[0] = c0;
    word[1] = c1;
    word[2] = c2;
    word[3] = c3;
}

#if defined(KIND_RANDINT)
#define CONVERT(x) (g.low + (long)((x) * g.range >> 32))
#elif defined(KIND_KEPT)
#define CONVERT(x) ((x) >> 8 >= (uint)g.low)
#else
#define CONVERT(x) (x)
#endif

#if defined(KIND_NORMAL)
// Natural logarithm of ((w >> 8) + 1) / 2**24, by the polynomial of Cephes' logf.
static inline reals log_of(const words w) {
    const reals u = REALS_OF((w >> 8) + 1u) * 0x1p-24f;
    const words bits = WORDS_OF(u);
    reals e = REALS_OF(WHOLE_OF(bits >> 23) - 126);
    reals m = AS_REALS((bits & 0x007fffffu) | 0x3f000000u);
    const whole small = m < 0.707106781186547524f;
    e = select(e, e - 1.0f, small);
    m = select(m, m + m, small) - 1.0f;
    const reals z = m * m;
    reals y = m * 7.0376836292e-2f - 1.1514610310e-1f;
    y = y * m + 1.1676998740e-1f;
    y = y * m - 1.2420140846e-1f;
    y = y * m + 1.4249322787e-1f;
    y = y * m - 1.6668057665e-1f;
    y = y * m + 2.0000714765e-1f;
    y = y * m - 2.4999993993e-1f;
    y = y * m + 3.3333331174e-1f;
    y = y * m * z;
    y = y + e * -2.12194440e-4f;
    y = y - z * 0.5f;
    return (m + y) + e * 0.693359375f;
}

// Cosine and sine of 2 pi (w >> 8) / 2**24, by the polynomials of Cephes' sinf and cosf on an eighth of a turn.
static inline void turn(const words w, reals* cosine, reals* sine) {
    const reals u = REALS_OF(w >> 8) * 0x1p-24f;
    const whole quarter = WHOLE_OF(u * 4.0f + 0.5f);
    const reals x = (u - REALS_OF(quarter) * 0.25f) * 6.283185307179586f;
    const reals z = x * x;
    reals s = z * -1.9515295891e-4f + 8.3321608736e-3f;
    s = s * z - 1.6666654611e-1f;
    s = s * z * x + x;
    reals c = z * 2.443315711809948e-5f - 1.388731625493765e-3f;
    c = c * z + 4.166664568298827e-2f;
    c = c * z * z - z * 0.5f + 1.0f;
    const whole odd = -(quarter & 1), turned = -((quarter >> 1) & 1);
    const reals a = select(c, -s, odd), b = select(s, c, odd);
    *cosine = select(a, -a, turned);
    *sine = select(b, -b, turned);
}
#endif

#if LANES == 1 && defined(KIND_KEPT)
// True for elements that are kept, of four counters of a work-item. Tensors begin at multiples of 16 bytes.
__kernel void draw(
    __global uchar *restrict out,
    __global const long *restrict state,
    const drawing g) {
    const ulong key = (ulong)state[0], base = (ulong)state[1] + (ulong)g.offset, first = get_global_id(0) * 16;
    if (first >= (ulong)g.size) return;
    uchar kept[16];
#pragma unroll
    for (uint k = 0; k < 4; k++) {
        words word[4];
        philox(key, base + first / 4 + k, word);
#pragma unroll
        for (uint i = 0; i < 4; i++) kept[4 * k + i] = CONVERT(word[i]);
    }
    const ulong left = (ulong)g.size - first;
    if (left >= 16)
        *(__global uint4*)(out + first) = as_uint4(vload16(0, kept));
    else
        for (uint i = 0; i < left; i++) out[first + i] = kept[i];
}
#else
__kernel LOOPS void draw(
    __global STORAGE *restrict out,
    __global const long *restrict state,
    const drawing g) {
    const ulong key = (ulong)state[0], base = (ulong)state[1] + (ulong)g.offset;
    for (long step = 0; step < g.block; step++) {
        const ulong first = (get_global_id(0) * (ulong)g.block + step) * LANES;
        if (first * 4 >= (ulong)g.size) return;
        words word[4];
        philox(key, base + first, word);
#if defined(KIND_UNIFORM)
        float value[4][LANES];
        for (int i = 0; i < 4; i++) PUT(REALS_OF(word[i] >> SHIFT) * SCALE, value[i]);
#elif defined(KIND_NORMAL)
        float value[4][LANES];
        for (int i = 0; i < 4; i += 2) {
            const reals radius = sqrt(log_of(word[i]) * -2.0f);
            reals cosine, sine;
            turn(word[i + 1], &cosine, &sine);
            PUT(radius * cosine, value[i]);
            PUT(radius * sine, value[i + 1]);
        }
#else
        uint value[4][LANES];
        for (int i = 0; i < 4; i++) PUT(word[i], value[i]);
#endif
        const ulong left = min((ulong)(4 * LANES), (ulong)g.size - first * 4);
#if LANES == 1 && defined(DTYPE_FLOAT32)
        if (left == 4) {
            const JOIN(STORAGE, 4) four = {CONVERT(value[0][0]), CONVERT(value[1][0]), CONVERT(value[2][0]), CONVERT(value[3][0])};
            *((__global JOIN(STORAGE, 4)*)out + first) = four;  // a tensor of its own, at a multiple of 16 bytes
            continue;
        }
#endif
        if (left == 4 * LANES)
            for (int i = 0; i < 4 * LANES; i++) STORE(CONVERT(value[i % 4][i / 4]), out, first * 4 + i);
        else
            for (ulong i = 0; i < left; i++) STORE(CONVERT(value[i % 4][i / 4]), out, first * 4 + i);
    }
}
#endif
