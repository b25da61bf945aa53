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
