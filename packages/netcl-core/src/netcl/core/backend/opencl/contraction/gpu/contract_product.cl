// The strides and offsets of a matrix product: out[z][i][j] = sum_k A[z][i][k] * B[z][k][j], with one stride for each
// index; offsets within a matrix have 32 bits.

typedef struct {
    long m, k, n, inner_batch;
    long a_row, a_k, b_k, b_n, out_row, out_n;
    long a_offset, b_offset, out_offset;
    long a_batch[2], b_batch[2], out_batch[2];
} product;
