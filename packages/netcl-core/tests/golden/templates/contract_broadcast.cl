// contract_broadcast/float32
#define DTYPE_FLOAT32 1
#define ROWS 8
#define COLUMNS 2
#define GROUP 64
#define OFFSET int
#define UNROLL 1
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
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

// The strides and offsets of a matrix product: out[z][i][j] = sum_k A[z][i][k] * B[z][k][j], with one stride for each
// index; offsets within a matrix have 32 bits.

typedef struct {
    long m, k, n, inner_batch;
    long a_row, a_k, b_k, b_n, out_row, out_n;
    long a_offset, b_offset, out_offset;
    long a_batch[2], b_batch[2], out_batch[2];
} product;
// GEMM for devices with sub-groups: out[z][i][j] = sum_k A[z][i][k] * B[z][k][j], a stride for each index.
//
// broadcast   work-group of GROUP, each for ROWS rows and GROUP * COLUMNS columns: a sub-group loads as many k of A as
//             it has work-items, one each, and broadcasts them; neither local memory nor barriers, for sub-groups of
//             any size.
//
// Offsets within a matrix have 32 bits. Sums go through epilogue(sum, operands...) if OPERANDS is defined. Contraction of
// a*b+c into one rounding is allowed here.

#ifdef cl_khr_subgroups
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void broadcast(__global const STORAGE* restrict a, __global const STORAGE* restrict b, __global STORAGE* restrict out, const product g FINISHING) {
    const int m = g.m, n = g.n, depth = g.k, row = get_group_id(1) * ROWS;
    const int column = get_group_id(0) * GROUP * COLUMNS + get_local_id(0);
    const long z = get_global_id(2), outer = z / g.inner_batch, inner = z % g.inner_batch;
    a += g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1];
    b += g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1];
    out += g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1];
    BEGIN_OPERANDS
    const int a_row = g.a_row, a_k = g.a_k, b_k = g.b_k, b_n = g.b_n, out_row = g.out_row, out_n = g.out_n;
    const int lane = get_sub_group_local_id(), lanes = get_sub_group_size();
    REAL sums[ROWS][COLUMNS], mine[ROWS], of_b[COLUMNS];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) sums[i][j] = 0;
    // All work-items of a sub-group execute all of this: elements beyond an edge are zero.
    for (int start = 0; start < depth; start += lanes) {
        const int ak = start + lane, steps = min(lanes, depth - start);
        for (int i = 0; i < ROWS; i++) mine[i] = ak < depth && row + i < m ? LOAD(a, (row + i) * a_row + ak * a_k) : (REAL)0;
        for (int step = 0; step < steps; step++) {
            for (int j = 0; j < COLUMNS; j++) {
                const int c = column + j * GROUP;
                of_b[j] = c < n ? LOAD(b, c * b_n + (start + step) * b_k) : (REAL)0;
            }
            for (int i = 0; i < ROWS; i++) {
                const REAL of_a = sub_group_broadcast(mine[i], (uint)step);
                for (int j = 0; j < COLUMNS; j++) sums[i][j] += of_a * of_b[j];
            }
        }
    }
    EACH_SUM
    for (int i = 0; i < ROWS; i++) {
        if (row + i >= m) continue;
        EACH_SUM
        for (int j = 0; j < COLUMNS; j++) {
            const int c = column + j * GROUP, inside = min(c, n - 1);
            const REAL value = FINISHED(sums[i][j], row + i, inside, inside * out_n);
            if (c < n) STORE(value, out, (row + i) * out_row + c * out_n);
        }
    }
}
