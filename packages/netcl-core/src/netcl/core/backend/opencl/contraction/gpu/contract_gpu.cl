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
    if (!g->parts) OUT_STORE(sum, (__global OUT_STORAGE*)out, at);
    else part[at] = g->accumulate ? part[at] + sum : sum;
}

#ifndef PLAIN
#define TILE (4 * EDGE)

$kernel [EDGE, EDGE, 1] tiled(read STORAGE a, read STORAGE b, write void out,
        contraction geometry${operand_parameters}) {
    __local REAL a_tile[EDGE][TILE + 1], b_tile[EDGE][TILE + 1];
    const contraction g = geometry;
    const long x = get_local_id(0), y = get_local_id(1);
    const long row = (long)get_group_id(1) * TILE + y, column = (long)get_group_id(0) * TILE + x;
    const long z = get_global_id(2), outer = z / g.inner_batch, inner = z % g.inner_batch;
    a += g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1];
    b += g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1];
    const long base = g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1];
    ${begin_operands}
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
    ${unroll_sums}
    for (int c = 0; c < 4; c++) {
        const long j = column + c * EDGE;
        if (j >= g.n) continue;
        const long to = offset_of(j, g.n_extent, g.out_n);
        ${unroll_sums}
        for (int r = 0; r < 4; r++) {
            const long i = row + r * EDGE;
            const REAL value = finished(sums[r][c], min(i, g.m - 1), j, to${operand_arguments});
            if (i < g.m) write(value, out, base + to + i * g.out_row, &g);
        }
    }
}
#endif

$kernel direct(read STORAGE a, read STORAGE b, write void out, contraction geometry${operand_parameters}) {
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
    ${begin_operands}
    const long base = g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1];
    const long to = offset_of(column, g.n_extent, g.out_n);
    write(finished(sum, row, column, to${operand_arguments}), out, base + to + row * g.out_row, &g);
}
