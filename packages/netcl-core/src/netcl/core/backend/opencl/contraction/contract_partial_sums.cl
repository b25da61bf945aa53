// add_parts  out = the sum of `splits` partial results of `size` elements, in order, so that it does not depend on scheduling, passed
//            through an epilogue if there is one. A work-item adds `block` results, VECTOR of them at a time; with AHEAD it reads as
//            many partial results before it adds them. For operands of the epilogue, results are matrices of `rows` x `columns`, `inner` of them for each outer one.

// With PLACED a result is stored at its place in filters (see `Places`), or nowhere.
//
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

#ifdef PLACED
typedef struct { long high, length, wide, inner, channels; } places;

static inline void put(const REAL value, __global OUT_STORAGE* out, const int at, const places p) {
    const int length = p.length, line = at / length, tap = (at - line * length) / (int)p.inner, c = at - line * length - tap * (int)p.inner;
    const int row = line / (int)p.high, y = line - row * (int)p.high;
    if (tap < p.wide && c < p.channels) OUT_STORE(value, out, ((row * p.channels + c) * p.high + y) * p.wide + tap);
}
#endif

$kernel LOOPS add_parts(read REAL parts, write OUT_STORAGE out, long size, long splits, long block, long columns,
        long rows, long inner, places where if PLACED${operand_parameters}) {
    const long first = get_global_id(0) * block, last = min(size, first + block);
    long i = first;
    for (; i + VECTOR <= last; i += VECTOR) {
        REALV sum = PART_AT(parts + i);
        long s = 1;
$if AHEAD
        for (; s + AHEAD <= splits; s += AHEAD) {
            REALV taken[AHEAD];
            #pragma unroll
            for (int t = 0; t < AHEAD; t++) taken[t] = PART_AT(parts + (s + t) * size + i);
            #pragma unroll
            for (int t = 0; t < AHEAD; t++) sum += taken[t];
        }
$end
        for (; s < splits; s++) sum += PART_AT(parts + s * size + i);
#ifdef OPERANDS
        REAL each[VECTOR];
        RSTORE(sum, each);
        for (int k = 0; k < VECTOR; k++) {
            const long at = i + k;
            OUT_STORE(epilogue(each[k]${operand_values}), out, at);
        }
#elif defined(PLACED)
        REAL each[VECTOR];
        RSTORE(sum, each);
        for (int k = 0; k < VECTOR; k++) put(each[k], out, i + k, where);
#else
        KEEP(sum, out + i);
#endif
    }
    for (long at = i; at < last; at++) {
        REAL sum = parts[at];
        for (long s = 1; s < splits; s++) sum += parts[s * size + at];
#ifdef OPERANDS
        sum = epilogue(sum${operand_values});
#endif
#ifdef PLACED
        put(sum, out, at, where);
#else
        OUT_STORE(sum, out, at);
#endif
    }
}
