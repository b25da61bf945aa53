// What the kernels of CPU devices that finish sums by epilogue(sum, operands...) share: OPERANDS pointers, at least one.
// The function itself stands behind the kernels where EPILOGUE is defined; without, one operand is added.

#if OPERANDS == 1
#define EACH_OPERAND(F) F(1)
#elif OPERANDS == 2
#define EACH_OPERAND(F) F(1) F(2)
#elif OPERANDS == 3
#define EACH_OPERAND(F) F(1) F(2) F(3)
#else
#define EACH_OPERAND(F) F(1) F(2) F(3) F(4)
#endif
#define PARAMETER(k) , __global const STORAGE* restrict e##k
#define VECTOR_TYPE(k) , const REALV

#ifdef EPILOGUE
REALV epilogue(const REALV EACH_OPERAND(VECTOR_TYPE));
#else
static inline REALV epilogue(const REALV sum, const REALV operand) { return sum + operand; }
#endif

typedef struct {
    long offset, row;
    long batch[2];
    long along;  // of a row: 0 the same value, 1 one for each column, 2 as the result
} operand;

