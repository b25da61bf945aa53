// contract_gpu/float32_plain
#define DTYPE_FLOAT32 1
#define PLAIN 1
#define finished(sum, row, column, to) (sum)
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
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
// GEMM for GPUs: out[z][i][j] = sum_k A[z][i][k] * B[z][k][j], indices k and j counting
// through four levels with strides of their own (see contract_cpu.cl), A and B read in place.
//
// tiled   work-group EDGE x EDGE: a tile of TILE x TILE outputs, 4 x 4 per work-item (at distances of EDGE), k in
//         steps of EDGE through local memory (2 * EDGE * (TILE + 1) elements).
// direct  one work-item per output; for few rows, with which a tile would be mostly empty, and (PLAIN) alone for
//         drivers that do not build the others.
//
// Sums go through epilogue(sum, operands...) if there are operands. Contraction of a*b+c into one rounding is allowed here.

static inline void write(const REAL sum, __global void* out, const long at, const contraction* g) {
    __global REAL* part = (__global REAL*)out;
    if (!g->parts) STORE(sum, (__global STORAGE*)out, at);
    else part[at] = g->accumulate ? part[at] + sum : sum;
}

#ifndef PLAIN
#define TILE (4 * EDGE)

__kernel __attribute__((reqd_work_group_size(EDGE, EDGE, 1))) void tiled(
    __global const STORAGE *restrict a,
    __global const STORAGE *restrict b,
    __global void *restrict out,
    const contraction geometry) {
    __local REAL a_tile[EDGE][TILE + 1], b_tile[EDGE][TILE + 1];
    const contraction g = geometry;
    const long x = get_local_id(0), y = get_local_id(1);
    const long row = (long)get_group_id(1) * TILE + y, column = (long)get_group_id(0) * TILE + x;
    const long z = get_global_id(2), outer = z / g.inner_batch, inner = z % g.inner_batch;
    a += g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1];
    b += g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1];
    const long base = g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1];
    long from[4];
    REAL sums[4][4];
    for (int c = 0; c < 4; c++) {
        from[c] = offset_of(min(column + c * EDGE, g.n - 1), g.n_extent, g.b_n);
        for (int r = 0; r < 4; r++) sums[r][c] = 0;
    }
    for (long start = 0; start < g.k; start += EDGE) {
        const long a_at = start + x < g.k ? offset_of(start + x, g.k_extent, g.a_k) : 0;
        const long b_at = start + y < g.k ? offset_of(start + y, g.k_extent, g.b_k) : 0;
        for (int c = 0; c < 4; c++) {
            const bool inside = start + x < g.k && row + c * EDGE < g.m;
            a_tile[x][y + c * EDGE] = inside ? LOAD(a, (row + c * EDGE) * g.a_row + a_at) : (REAL)0;
            b_tile[y][x + c * EDGE] = start + y < g.k ? LOAD(b, from[c] + b_at) : (REAL)0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < EDGE; k++)
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 4; c++) sums[r][c] += a_tile[k][y + r * EDGE] * b_tile[k][x + c * EDGE];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int c = 0; c < 4; c++) {
        const long j = column + c * EDGE;
        if (j >= g.n) continue;
        const long to = offset_of(j, g.n_extent, g.out_n);
        for (int r = 0; r < 4; r++) {
            const long i = row + r * EDGE;
            const REAL value = finished(sums[r][c], min(i, g.m - 1), j, to);
            if (i < g.m) write(value, out, base + to + i * g.out_row, &g);
        }
    }
}
#endif

__kernel void direct(
    __global const STORAGE *restrict a,
    __global const STORAGE *restrict b,
    __global void *restrict out,
    const contraction geometry) {
    const contraction g = geometry;
    const long column = get_global_id(0), row = get_global_id(1);
    const long z = get_global_id(2), outer = z / g.inner_batch, inner = z % g.inner_batch;
    a += g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1] + row * g.a_row;
    b += g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1] + offset_of(column, g.n_extent, g.b_n);
    REAL sum = 0;
    for (long k0 = 0; k0 < g.k_extent[0]; k0++)
        for (long k1 = 0; k1 < g.k_extent[1]; k1++)
            for (long k2 = 0; k2 < g.k_extent[2]; k2++) {
                const long a_at = k0 * g.a_k[0] + k1 * g.a_k[1] + k2 * g.a_k[2];
                const long b_at = k0 * g.b_k[0] + k1 * g.b_k[1] + k2 * g.b_k[2];
                for (long k3 = 0; k3 < g.k_extent[3]; k3++)
                    sum += LOAD(a, a_at + k3 * g.a_k[3]) * LOAD(b, b_at + k3 * g.b_k[3]);
            }
    const long base = g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1];
    const long to = offset_of(column, g.n_extent, g.out_n);
    write(finished(sum, row, column, to), out, base + to + row * g.out_row, &g);
}
