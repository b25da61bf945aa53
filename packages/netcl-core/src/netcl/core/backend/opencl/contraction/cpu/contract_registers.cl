// The sums of a tile of ROWS rows x COLUMNS = VECTORS * VECTOR columns in registers, for the kernels of CPU devices:
// macros of a row i with the sums c<i>_0 ..; a<i> points to its elements of A, bp to a vector of B. RUN products each
// are summed, then added to the total at s: this reduces the rounding error of long sums.

#define COLUMNS (VECTORS * VECTOR)
#define RUN 64

#if ROWS == 4
#define EACH_ROW(F) F(0) F(1) F(2) F(3)
#elif ROWS == 6
#define EACH_ROW(F) F(0) F(1) F(2) F(3) F(4) F(5)
#elif ROWS == 8
#define EACH_ROW(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#elif ROWS == 10
#define EACH_ROW(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9)
#elif ROWS == 14
#define EACH_ROW(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13)
#elif ROWS == 12
#define EACH_ROW(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#endif

#if VECTORS == 1
#define DECLARE(i) REALV c##i##_0 = 0;
#define KEEP(i) s[i] = c##i##_0;
#define ADD(i) s[i] += c##i##_0;
#define MULTIPLY(i) { const REAL x = A_AT(a##i, at); c##i##_0 += x * b0; }
#define STRIP_LOAD const REALV b0 = bp[0];
#else
#define DECLARE(i) REALV c##i##_0 = 0, c##i##_1 = 0;
#define KEEP(i) s[2 * i] = c##i##_0; s[2 * i + 1] = c##i##_1;
#define ADD(i) s[2 * i] += c##i##_0; s[2 * i + 1] += c##i##_1;
#define MULTIPLY(i) { const REAL x = A_AT(a##i, at); c##i##_0 += x * b0; c##i##_1 += x * b1; }
#define STRIP_LOAD const REALV b0 = bp[0], b1 = bp[1];
#endif

// The sums of `length` products; unless they are the `first` ones, the total is added. The next element of A is `stride` on.
#define SUM_PRODUCTS(length, stride, first) { \
    size_t at = 0; \
    long k = 0; \
    do { \
        EACH_ROW(DECLARE) \
        for (const long stop = min(length, k + RUN); k < stop; k++, at += stride, bp += VECTORS) { \
            STRIP_LOAD \
            EACH_ROW(MULTIPLY) \
        } \
        if (k <= RUN && (first)) { EACH_ROW(KEEP) } \
        else { EACH_ROW(ADD) } \
    } while (k < length); \
}
