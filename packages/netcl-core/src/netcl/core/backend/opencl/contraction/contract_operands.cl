// Epilogue fusion: kernels pass their sums through epilogue(sum, operands...) with OPERANDS pointers, at least one. If
// EPILOGUE is defined, the function follows the kernels in the text; else one operand is added.
//
// Kernels for CPUs, which define VECTOR, pass vectors of sums; kernels for GPUs single sums, and none if OPERANDS is not
// defined. OFFSET is int if offsets within a matrix have 32 bits.

#ifdef VECTOR
#define FINISHED_TYPE REALV
#else
#define FINISHED_TYPE REAL
#endif

#ifdef OPERANDS
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
#define OPERAND_TYPE(k) , const FINISHED_TYPE

#ifdef EPILOGUE
FINISHED_TYPE epilogue(const FINISHED_TYPE EACH_OPERAND(OPERAND_TYPE));
#else
static inline FINISHED_TYPE epilogue(const FINISHED_TYPE sum, const FINISHED_TYPE operand) { return sum + operand; }
#endif

typedef struct {
    long offset, row;
    long batch[2];
    long along;  // of a row: 0 the same value, 1 one for each column, 2 as the result
} operand;
#endif

#ifndef VECTOR
#ifndef OFFSET
#define OFFSET long
#endif

#ifdef OPERANDS
typedef struct { operand each[OPERANDS]; } operands;

static inline OFFSET beside(const operand e, const OFFSET row, const OFFSET column, const OFFSET to) {
    return row * (OFFSET)e.row + (e.along == 2 ? to : (OFFSET)e.along * column);
}

// No `restrict` here: inlined, it becomes an intrinsic that oclgrind does not know.
#define POINTER(k) , __global const STORAGE* e##k
#define BESIDE(k) , LOAD(e##k, beside(places.each[k - 1], row, column, to))
static inline REAL finished(const REAL sum, const OFFSET row, const OFFSET column, const OFFSET to, const operands places EACH_OPERAND(POINTER)) {
    return epilogue(sum EACH_OPERAND(BESIDE));
}

#define POINTED(k) , e##k
#define BEGIN(k) e##k += places.each[k - 1].offset + outer * places.each[k - 1].batch[0] + inner * places.each[k - 1].batch[1];
// FINISHING follows a kernel's parameters; BEGIN_OPERANDS moves the pointers to matrix (outer, inner); FINISHED is the value
// to store for a sum, `to` the offset of its column in the matrix of results. Several sums are finished before they are
// stored, sums past an edge as their neighbours, so that reads do not wait for writes.
#define FINISHING , const operands places EACH_OPERAND(PARAMETER)
#define BEGIN_OPERANDS EACH_OPERAND(BEGIN)
#define FINISHED(sum, row, column, to) finished(sum, row, column, to, places EACH_OPERAND(POINTED))
#else
#define FINISHING
#define BEGIN_OPERANDS
#define FINISHED(sum, row, column, to) (sum)
#endif

// Before loops over sums in registers, which stay there only where the loops are unrolled: behind long epilogues compilers
// leave them as they are.
#if defined(OPERANDS) && defined(UNROLL)
#define EACH_SUM _Pragma("unroll")
#else
#define EACH_SUM
#endif
#endif

