// contract_depthwise/cpu_float32
#define DTYPE_FLOAT32 1
#define VECTOR 8
#define MOST 64
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
// The strides and offsets of a contraction: out[z][i][j] = sum_k A[z][i][k] * B[z][k][j], indices k and j counting through
// four levels with strides of their own (see contract_cpu.cl); for kernels that compute offsets by division.

typedef struct {
    long m, k, n, inner_batch, accumulate, parts;
    long a_row, out_row, a_offset, b_offset, out_offset;
    long a_batch[2], b_batch[2], out_batch[2];
    long k_extent[4], a_k[4], b_k[4], n_extent[4], b_n[4], out_n[4];
} contraction;

static inline long offset_of(long index, const long* extent, const long* stride) {
    long at = 0;
    for (int d = 3; d > 0; d--) {
        at += index % extent[d] * stride[d];
        index /= extent[d];
    }
    return at + index * stride[0];
}
// Depthwise convolutions on CPU devices: contractions of a few rows with few terms or few columns.
// out[z][i][j] = sum_k A[z][i][k] * B[z][k][j], indices k and j counting through four levels (see contract_cpu.cl).
//
// planes  few terms: a work-item takes `each` runs of the innermost level of j, vectors along it, A's row in registers.
// taps    few columns: a work-item takes a row of a matrix, vectors along the innermost level of k.
//
// At most MOST terms or columns. Contraction of a*b+c into one rounding is allowed here.

__kernel void planes(
    __global const STORAGE *restrict a,
    __global const STORAGE *restrict b,
    __global STORAGE *restrict out,
    const contraction geometry,
    const long runs,
    const long each) {
    const contraction g = geometry;
    long offsets[MOST], known = -1;
    REAL weights[MOST];
    const long first = (long)get_global_id(0) * each, last = min(runs, first + each), width = g.n_extent[3];
    const bool vectors = g.b_n[3] == 1 && g.out_n[3] == 1;
    for (long run = first; run < last; run++) {
        long rest = run;
        const long n2 = rest % g.n_extent[2];
        rest /= g.n_extent[2];
        const long n1 = rest % g.n_extent[1];
        rest /= g.n_extent[1];
        const long n0 = rest % g.n_extent[0];
        const long matrix_row = rest / g.n_extent[0];
        const long row = matrix_row % g.m, z = matrix_row / g.m, outer = z / g.inner_batch, inner = z % g.inner_batch;
        if (matrix_row != known) {
            __global const STORAGE* from = a + g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1] + row * g.a_row;
            for (long k = 0; k < g.k; k++) {
                offsets[k] = offset_of(k, g.k_extent, g.b_k);
                weights[k] = LOAD(from, offset_of(k, g.k_extent, g.a_k));
            }
            known = matrix_row;
        }
        __global const STORAGE* from = b + g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1] + n0 * g.b_n[0] + n1 * g.b_n[1] + n2 * g.b_n[2];
        __global STORAGE* to = out + g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1] + row * g.out_row
                               + n0 * g.out_n[0] + n1 * g.out_n[1] + n2 * g.out_n[2];
        long x = 0;
        if (vectors)
            for (; x + VECTOR <= width; x += VECTOR) {
                REALV sum = 0;
                for (long k = 0; k < g.k; k++) sum += weights[k] * VLOAD(from + offsets[k] + x);
                VSTORE(sum, to + x);
            }
        for (; x < width; x++) {
            REAL sum = 0;
            for (long k = 0; k < g.k; k++) sum += weights[k] * LOAD(from, offsets[k] + x * g.b_n[3]);
            STORE(sum, to, x * g.out_n[3]);
        }
    }
}

__kernel void taps(
    __global const STORAGE *restrict a,
    __global const STORAGE *restrict b,
    __global void *restrict out,
    const contraction geometry) {
    const contraction g = geometry;
    const long id = get_global_id(0), row = id % g.m, z = id / g.m, outer = z / g.inner_batch, inner = z % g.inner_batch;
    const bool vectors = g.a_k[3] == 1 && g.b_k[3] == 1;
    long offsets[MOST];
    REALV wide[MOST];
    REAL sums[MOST];
    for (long j = 0; j < g.n; j++) {
        offsets[j] = offset_of(j, g.n_extent, g.b_n);
        wide[j] = 0;
        sums[j] = 0;
    }
    a += g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1] + row * g.a_row;
    b += g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1];
    for (long k0 = 0; k0 < g.k_extent[0]; k0++)
        for (long k1 = 0; k1 < g.k_extent[1]; k1++)
            for (long k2 = 0; k2 < g.k_extent[2]; k2++) {
                __global const STORAGE* left = a + k0 * g.a_k[0] + k1 * g.a_k[1] + k2 * g.a_k[2];
                __global const STORAGE* right = b + k0 * g.b_k[0] + k1 * g.b_k[1] + k2 * g.b_k[2];
                long x = 0;
                if (vectors)
                    for (; x + VECTOR <= g.k_extent[3]; x += VECTOR) {
                        const REALV value = VLOAD(left + x);
                        for (long j = 0; j < g.n; j++) wide[j] += value * VLOAD(right + offsets[j] + x);
                    }
                for (; x < g.k_extent[3]; x++) {
                    const REAL value = LOAD(left, x * g.a_k[3]);
                    for (long j = 0; j < g.n; j++) sums[j] += value * LOAD(right, offsets[j] + x * g.b_k[3]);
                }
            }
    const long base = g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1] + row * g.out_row;
    for (long j = 0; j < g.n; j++) {
        REAL lanes[VECTOR], sum = sums[j];
        RSTORE(wide[j], lanes);
        for (int i = 0; i < VECTOR; i++) sum += lanes[i];
        const long at = base + offset_of(j, g.n_extent, g.out_n);
        if (!g.parts) STORE(sum, (__global STORAGE*)out, at);
        else ((__global REAL*)out)[at] = g.accumulate ? ((__global REAL*)out)[at] + sum : sum;
    }
}
