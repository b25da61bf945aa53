// contract_partial_sums/cpu_float32
#define DTYPE_FLOAT32 1
#define VECTOR 8
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
#define REALV float8
typedef float8 __attribute__((aligned(4))) PACKED;
#define GLOAD(p) (*(__global const PACKED*)(p))
#define GSTORE(x, p) (*(__global PACKED*)(p) = (x))
#define RLOAD(p) vload8(0, (p))
#define RSTORE(x, p) vstore8((x), 0, (p))
#define VLOAD(p) GLOAD(p)
#define VSTORE(x, p) GSTORE((x), (p))
#define A_STORAGE STORAGE
#define A_LOAD(p, i) LOAD(p, i)
#define A_VLOAD(p) VLOAD(p)
#define A_STORE(x, p, i) STORE(x, p, i)
#define A_VSTORE(x, p) VSTORE(x, p)
#define B_STORAGE STORAGE
#define B_LOAD(p, i) LOAD(p, i)
#define B_VLOAD(p) VLOAD(p)
#define B_STORE(x, p, i) STORE(x, p, i)
#define B_VSTORE(x, p) VSTORE(x, p)
#define OUT_STORAGE STORAGE
#define OUT_LOAD(p, i) LOAD(p, i)
#define OUT_VLOAD(p) VLOAD(p)
#define OUT_STORE(x, p, i) STORE(x, p, i)
#define OUT_VSTORE(x, p) VSTORE(x, p)
// add_parts  out = the sum of `splits` partial results of `size` elements, in order, so that it does not depend on scheduling, passed
//            through an epilogue if there is one. A work-item adds `block` results, VECTOR of them at a time; with AHEAD it reads as
//            many partial results before it adds them. For operands of the epilogue, results are matrices of `rows` x `columns`, `inner` of them for each outer one.

// With WHOLE, `size` is a multiple of VECTOR: vectors have the alignment of their type, so that GPUs access each at once.
#ifdef WHOLE
#define PART_AT(p) (*(__global const REALV*)(p))
#else
#define PART_AT(p) GLOAD(p)
#endif
#if defined(WHOLE) && !defined(DTYPE_FLOAT16) && !defined(DTYPE_BFLOAT16)
#define KEEP(x, p) (*(__global REALV*)(p) = (x))
#else
#define KEEP(x, p) OUT_VSTORE(x, p)
#endif

#ifdef OPERANDS
typedef struct { operand each[OPERANDS]; } operands;

static inline long operand_at(const operand e, const long at, const long columns, const long rows, const long inner) {
    if (e.along == 2) return at;
    const long line = at / columns, matrix = line / rows;
    return e.offset + (line - matrix * rows) * e.row + (e.along == 1 ? at - line * columns : 0)
        + matrix / inner * e.batch[0] + matrix % inner * e.batch[1];
}
#endif

__kernel LOOPS void add_parts(
    __global const REAL *restrict parts,
    __global OUT_STORAGE *restrict out,
    const long size,
    const long splits,
    const long block,
    const long columns,
    const long rows,
    const long inner) {
    const long first = get_global_id(0) * block, last = min(size, first + block);
    long i = first;
    for (; i + VECTOR <= last; i += VECTOR) {
        REALV sum = PART_AT(parts + i);
        long s = 1;
        for (; s < splits; s++) sum += PART_AT(parts + s * size + i);
#ifdef OPERANDS
        REAL each[VECTOR];
        RSTORE(sum, each);
        for (int k = 0; k < VECTOR; k++) {
            const long at = i + k;
            OUT_STORE(epilogue(each[k]), out, at);
        }
#else
        KEEP(sum, out + i);
#endif
    }
    for (long at = i; at < last; at++) {
        REAL sum = parts[at];
        for (long s = 1; s < splits; s++) sum += parts[s * size + at];
#ifdef OPERANDS
        sum = epilogue(sum);
#endif
        OUT_STORE(sum, out, at);
    }
}
