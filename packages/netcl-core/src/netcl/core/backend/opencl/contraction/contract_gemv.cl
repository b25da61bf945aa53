// GEMV and products with a few rows, on CPU devices: B is read once, nothing is packed.
//
// dot     k is contiguous in A and in B. One work-item: four rows times `block` columns, vectors along k; for a single row
//         four columns at a time, so that memory serves four streams.
// stream  the columns of B are contiguous. One work-item: four rows times a strip of STRIP columns, all of k.
//
// Rows past the end repeat the last one and are not written. Sums are stored through epilogue(sum, operands...) if there are
// operands. Contraction of a*b+c into one rounding is allowed here.

typedef struct {
    long m, n, k, row_blocks, column_blocks, block, inner_batch;
    long a_row, a_k, b_k, b_n, out_row, out_n, a_offset, b_offset, out_offset;
    long a_batch[2], b_batch[2], out_batch[2];
} thin;

static inline REAL horizontal(REALV v) {
    REAL parts[VECTOR], sum = 0;
    RSTORE(v, parts);
    for (int i = 0; i < VECTOR; i++) sum += parts[i];
    return sum;
}

$kernel dot_rows(read STORAGE a, read STORAGE b, write STORAGE out, thin g${operand_parameters}) {
    size_t unit = get_global_id(0);
    const long first = (long)(unit % g.column_blocks) * g.block, last = min(g.n, first + g.block);
    unit /= g.column_blocks;
    const long row = (long)(unit % g.row_blocks) * 4;
    const long z = unit / g.row_blocks, outer = z / g.inner_batch, inner = z % g.inner_batch;
    a += g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1];
    b += g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1];
    out += g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1] + row * g.out_row;
    ${begin_operands}
    const long rows = min(4L, g.m - row);
    __global const STORAGE* a0 = a + row * g.a_row;
    __global const STORAGE* a1 = a + (row + min(1L, rows - 1)) * g.a_row;
    __global const STORAGE* a2 = a + (row + min(2L, rows - 1)) * g.a_row;
    __global const STORAGE* a3 = a + (row + min(3L, rows - 1)) * g.a_row;
    long j = first;
    if (rows == 1) {
        for (; j + 4 <= last; j += 4) {
            __global const STORAGE* b0 = b + j * g.b_n;
            __global const STORAGE* b1 = b0 + g.b_n;
            __global const STORAGE* b2 = b1 + g.b_n;
            __global const STORAGE* b3 = b2 + g.b_n;
            REALV s0 = 0, s1 = 0, s2 = 0, s3 = 0;
            long k = 0;
            for (; k + VECTOR <= g.k; k += VECTOR) {
                const REALV x = VLOAD(a0 + k);
                s0 += x * VLOAD(b0 + k);
                s1 += x * VLOAD(b1 + k);
                s2 += x * VLOAD(b2 + k);
                s3 += x * VLOAD(b3 + k);
            }
            REAL sum[4] = {horizontal(s0), horizontal(s1), horizontal(s2), horizontal(s3)};
            for (; k < g.k; k++) {
                const REAL x = LOAD(a0, k);
                sum[0] += x * LOAD(b0, k);
                sum[1] += x * LOAD(b1, k);
                sum[2] += x * LOAD(b2, k);
                sum[3] += x * LOAD(b3, k);
            }
            for (int i = 0; i < 4; i++) {
                const long to = (j + i) * g.out_n;
                STORE(finished(sum[i], row, j + i, to${operand_arguments}), out, to);
            }
        }
    }
    for (; j < last; j++) {
        __global const STORAGE* column = b + j * g.b_n;
        REALV s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        long k = 0;
        for (; k + VECTOR <= g.k; k += VECTOR) {
            const REALV x = VLOAD(column + k);
            s0 += VLOAD(a0 + k) * x;
            s1 += VLOAD(a1 + k) * x;
            s2 += VLOAD(a2 + k) * x;
            s3 += VLOAD(a3 + k) * x;
        }
        REAL sum[4] = {horizontal(s0), horizontal(s1), horizontal(s2), horizontal(s3)};
        for (; k < g.k; k++) {
            const REAL x = LOAD(column, k);
            sum[0] += LOAD(a0, k) * x;
            sum[1] += LOAD(a1, k) * x;
            sum[2] += LOAD(a2, k) * x;
            sum[3] += LOAD(a3, k) * x;
        }
        const long to = j * g.out_n;
        for (long i = 0; i < rows; i++) STORE(finished(sum[i], row + i, j, to${operand_arguments}), out, i * g.out_row + to);
    }
}

$kernel stream_rows(read STORAGE a, read STORAGE b, write STORAGE out, thin g${operand_parameters}) {
    size_t unit = get_global_id(0);
    const long first = (long)(unit % g.column_blocks) * STRIP;
    unit /= g.column_blocks;
    const long row = (long)(unit % g.row_blocks) * 4;
    const long z = unit / g.row_blocks, outer = z / g.inner_batch, inner = z % g.inner_batch;
    a += g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1] + row * g.a_row;
    b += g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1] + first;
    out += g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1] + row * g.out_row;
    ${begin_operands}
    const long rows = min(4L, g.m - row), columns = min((long)STRIP, g.n - first), whole = columns / VECTOR * VECTOR;
    REAL sums[4][STRIP];
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < columns; j++) sums[i][j] = 0;
    for (long k = 0; k < g.k; k += 4) {
        // Four rows of B at a time: the sums pass the first-level cache once for all four.
        const long left = min(4L, g.k - k);
        __global const STORAGE* b0 = b + k * g.b_k;
        __global const STORAGE* b1 = b + (k + min(1L, left - 1)) * g.b_k;
        __global const STORAGE* b2 = b + (k + min(2L, left - 1)) * g.b_k;
        __global const STORAGE* b3 = b + (k + min(3L, left - 1)) * g.b_k;
        for (long i = 0; i < rows; i++) {
            __global const STORAGE* x = a + i * g.a_row + k * g.a_k;
            if (left == 4) {
                const REAL x0 = LOAD(x, 0), x1 = LOAD(x, g.a_k), x2 = LOAD(x, 2 * g.a_k), x3 = LOAD(x, 3 * g.a_k);
                for (long j = 0; j < whole; j += VECTOR) {
                    REALV sum = RLOAD(sums[i] + j);
                    sum += x0 * VLOAD(b0 + j);
                    sum += x1 * VLOAD(b1 + j);
                    sum += x2 * VLOAD(b2 + j);
                    sum += x3 * VLOAD(b3 + j);
                    RSTORE(sum, sums[i] + j);
                }
                for (long j = whole; j < columns; j++)
                    sums[i][j] += x0 * LOAD(b0, j) + x1 * LOAD(b1, j) + x2 * LOAD(b2, j) + x3 * LOAD(b3, j);
            } else {
                for (long t = 0; t < left; t++)
                    for (long j = 0; j < columns; j++) sums[i][j] += LOAD(x, t * g.a_k) * LOAD(b0, t * g.b_k + j);
            }
        }
    }
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < columns; j++) {
            const long to = (first + j) * g.out_n;
            STORE(finished(sums[i][j], row + i, first + j, to${operand_arguments}), out, i * g.out_row + to);
        }
}
