// contract_recurrence_groups/float32_lstm_32_64
#define DTYPE_FLOAT32 1
#define GATES 4
#define VECTOR 1
#define REALV REAL
#define GLOAD(p) (*(p))
#define GSTORE(x, p) (*(p) = (x))
#define ROWS 1
#define WIDE 4
#define BACK_ROWS 1
#define BACK_WIDE 1
#define PLACE(j) ((j) * g.hidden)
#define WEIGHT(j) ((j) * g.weight_gate)
#define HIDDEN 64
#define SPLIT 8
#define OTHERS 7
#define MORE 6
#define CHUNK 8
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// The arguments of a walk over the time steps of a recurrent net, and the formulas of a step, for all of its kernels.
// recurrence_cells.py writes the parts of a kernel.
//
// forward    s = x[t] + bias + h[t-1] W^T for each gate, and then by the kind of cell (gates i f g o; r z n; one):
//            lstm  c[t] = sigmoid(f) c[t-1] + sigmoid(i) tanh(g), h[t] = sigmoid(o) tanh(c[t])
//            gru   n = tanh(x_n + sigmoid(r) q) with q the n of bias + h[t-1] W^T,
//                  h[t] = (1 - sigmoid(z)) n + sigmoid(z) h[t-1]
//            tanh  h[t] = tanh(s), relu  h[t] = max(s, 0)
//            `kept` has the values of the gates, 4 * hidden for each row: i f g o, or r z n q.
// backward   the gradients by s (`by_sum`, gates * hidden for each row) and, for gru, by x (`by_x`), from the last step to
//            the first, and those by h and c before the first step. `carry` (2, n, hidden) has the gradient that goes to
//            the step before without a weight; its two halves take turns.

typedef struct {
    long steps, n, hidden, reverse, first, last, rows, units;
    long biased, keeps, by_out, by_cells;  // 1 if there is a bias, room in `kept`, a gradient by out, by cells
    long weight_unit, weight_step, weight_gate;  // of weight, from a unit, step of the sum, gate to the next
} walk;

static inline REALV logistic(const REALV x) { return 1 / (1 + exp(-x)); }

// All time steps of a recurrent net, and all steps back, in one launch on a device with many small cores. Batch rows are
// independent: a group runs all steps of its ROWS rows, and the weight, which each step reads whole, stays in the caches.
//
// A group has HIDDEN * SPLIT work-items: work-item (unit, part) adds the part-th piece of the sums of its unit for each
// gate, and the first part ends the step. Between two steps is one barrier in global memory, through which the state goes
// from the work-items that write it to all. Rows past the end are the last one again: computed twice, with one result.
// weight is (hidden, gates * hidden) in forward and (gates * hidden, hidden) in backward, so that neighbouring work-items
// read neighbouring numbers. Local memory: SPLIT - 1 sums for each row, gate and unit.

#if SPLIT > 1
#define SHARED(count) __local REAL shared[SPLIT - 1][count][HIDDEN];
#else
#define SHARED(count)
#endif

__kernel __attribute__((reqd_work_group_size(HIDDEN * SPLIT, 1, 1))) void forward(
    __global const REAL *x,
    __global const REAL *weight,
    __global const REAL *bias,
    __global const REAL *state,
    __global const REAL *cell,
    __global REAL *out,
    __global REAL *cells,
    __global REAL *kept,
    const walk g) {
    SHARED(ROWS * GATES)
    const int part = get_local_id(0) / HIDDEN, u = get_local_id(0) % HIDDEN;
    const int begin = part * CHUNK, end = min(begin + CHUNK, HIDDEN);
    const long rows_begin = get_group_id(0) * ROWS, rows_end = min(g.n, rows_begin + ROWS);
    const long plane = g.n * g.hidden, r = rows_begin;
    const REALV e0 = g.biased ? GLOAD(bias + u + PLACE(0)) : (REALV)(0);
    const REALV e1 = g.biased ? GLOAD(bias + u + PLACE(1)) : (REALV)(0);
    const REALV e2 = g.biased ? GLOAD(bias + u + PLACE(2)) : (REALV)(0);
    const REALV e3 = g.biased ? GLOAD(bias + u + PLACE(3)) : (REALV)(0);
    for (long s = 0; s < g.steps; s++) {
        const long now = g.reverse ? g.steps - 1 - s : s, past = g.reverse ? now + 1 : now - 1;
        __global const REAL* before = s == 0 ? state : out + past * plane;
        __global const REAL* cell_before = s == 0 ? cell : cells + past * plane;
        const long row0 = min(r + 0, rows_end - 1); __global const REAL* p0 = before + row0 * g.hidden;
        REALV c0_0 = 0;
        REALV c0_1 = 0;
        REALV c0_2 = 0;
        REALV c0_3 = 0;
        __global const REAL* w = weight + u + begin * GATES * HIDDEN;
        #pragma unroll 8
        for (int k = begin; k < end; k++, w += GATES * HIDDEN) {
            const REALV b0 = GLOAD(w + WEIGHT(0));
            const REALV b1 = GLOAD(w + WEIGHT(1));
            const REALV b2 = GLOAD(w + WEIGHT(2));
            const REALV b3 = GLOAD(w + WEIGHT(3));
            {
                const REAL a = p0[k];
                c0_0 += a * b0;
                c0_1 += a * b1;
                c0_2 += a * b2;
                c0_3 += a * b3;
            }
        }
        if (part > 0) {
            shared[part - 1][0 * WIDE + 0][u] = c0_0;
            shared[part - 1][0 * WIDE + 1][u] = c0_1;
            shared[part - 1][0 * WIDE + 2][u] = c0_2;
            shared[part - 1][0 * WIDE + 3][u] = c0_3;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (part == 0) {
            c0_0 += shared[0][0 * WIDE + 0][u]
                + shared[0 + 1][0 * WIDE + 0][u]
                + shared[1 + 1][0 * WIDE + 0][u]
                + shared[2 + 1][0 * WIDE + 0][u]
                + shared[3 + 1][0 * WIDE + 0][u]
                + shared[4 + 1][0 * WIDE + 0][u]
                + shared[5 + 1][0 * WIDE + 0][u]
                ;
            c0_1 += shared[0][0 * WIDE + 1][u]
                + shared[0 + 1][0 * WIDE + 1][u]
                + shared[1 + 1][0 * WIDE + 1][u]
                + shared[2 + 1][0 * WIDE + 1][u]
                + shared[3 + 1][0 * WIDE + 1][u]
                + shared[4 + 1][0 * WIDE + 1][u]
                + shared[5 + 1][0 * WIDE + 1][u]
                ;
            c0_2 += shared[0][0 * WIDE + 2][u]
                + shared[0 + 1][0 * WIDE + 2][u]
                + shared[1 + 1][0 * WIDE + 2][u]
                + shared[2 + 1][0 * WIDE + 2][u]
                + shared[3 + 1][0 * WIDE + 2][u]
                + shared[4 + 1][0 * WIDE + 2][u]
                + shared[5 + 1][0 * WIDE + 2][u]
                ;
            c0_3 += shared[0][0 * WIDE + 3][u]
                + shared[0 + 1][0 * WIDE + 3][u]
                + shared[1 + 1][0 * WIDE + 3][u]
                + shared[2 + 1][0 * WIDE + 3][u]
                + shared[3 + 1][0 * WIDE + 3][u]
                + shared[4 + 1][0 * WIDE + 3][u]
                + shared[5 + 1][0 * WIDE + 3][u]
                ;
            {
                const long at = (now * g.n + row0) * g.hidden + u, gate = (now * g.n + row0) * GATES * g.hidden + u;
                const REALV in = logistic(c0_0 + e0 + GLOAD(x + gate));
                const REALV forget = logistic(c0_1 + e1 + GLOAD(x + gate + g.hidden));
                const REALV fresh = tanh(c0_2 + e2 + GLOAD(x + gate + 2 * g.hidden));
                const REALV show = logistic(c0_3 + e3 + GLOAD(x + gate + 3 * g.hidden));
                const REALV c = forget * GLOAD(cell_before + row0 * g.hidden + u) + in * fresh;
                GSTORE(c, cells + at);
                GSTORE(show * tanh(c), out + at);
                if (g.keeps) {
                    GSTORE(in, kept + gate); GSTORE(forget, kept + gate + g.hidden);
                    GSTORE(fresh, kept + gate + 2 * g.hidden); GSTORE(show, kept + gate + 3 * g.hidden);
                }
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
}

__kernel __attribute__((reqd_work_group_size(HIDDEN * SPLIT, 1, 1))) void backward(
    __global const REAL *weight,
    __global const REAL *state,
    __global const REAL *cell,
    __global const REAL *out,
    __global const REAL *cells,
    __global const REAL *kept,
    __global const REAL *by_out,
    __global const REAL *by_cells,
    __global REAL *by_x,
    __global REAL *by_sum,
    __global REAL *by_state,
    __global REAL *by_cell,
    __global REAL *carry,
    const walk g) {
    SHARED(ROWS)
    const int part = get_local_id(0) / HIDDEN, u = get_local_id(0) % HIDDEN;
    const int begin = part * GATES * CHUNK, end = min(begin + GATES * CHUNK, GATES * HIDDEN);
    const long rows_begin = get_group_id(0) * ROWS, rows_end = min(g.n, rows_begin + ROWS);
    const long plane = g.n * g.hidden, r = rows_begin;
    for (long s = g.steps - 1; s >= -1; s--) {
        const long now = g.reverse ? g.steps - 1 - s : s;
        const long past = g.reverse ? now + 1 : now - 1, next = g.reverse ? now - 1 : now + 1;
        __global const REAL* after = by_sum + next * plane * GATES;
        __global const REAL* carried = carry + ((s + 1) & 1) * plane;
        __global REAL* carry_on = carry + (s & 1) * plane;
        __global const REAL* cell_before = s <= 0 ? cell : cells + past * plane;
        const long row0 = min(r + 0, rows_end - 1); __global const REAL* p0 = after + row0 * GATES * g.hidden;
        REALV c0_0 = 0;
        if (s < g.steps - 1) {
            __global const REAL* w = weight + u + begin * HIDDEN;
            #pragma unroll 8
            for (int k = begin; k < end; k++, w += HIDDEN) {
                const REALV b0 = GLOAD(w + 0 * VECTOR);
                {
                    const REAL a = p0[k];
                    c0_0 += a * b0;
                }
            }
        }
        if (part > 0) {
            shared[part - 1][0 * BACK_WIDE + 0][u] = c0_0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (part == 0) {
            c0_0 += shared[0][0 * BACK_WIDE + 0][u]
                + shared[0 + 1][0 * BACK_WIDE + 0][u]
                + shared[1 + 1][0 * BACK_WIDE + 0][u]
                + shared[2 + 1][0 * BACK_WIDE + 0][u]
                + shared[3 + 1][0 * BACK_WIDE + 0][u]
                + shared[4 + 1][0 * BACK_WIDE + 0][u]
                + shared[5 + 1][0 * BACK_WIDE + 0][u]
                ;
            {
                const long unit_at = u + 0 * VECTOR, here = row0 * g.hidden + unit_at, at = now * plane + here;
                const long gate = (now * g.n + row0) * GATES * g.hidden + unit_at;
                REALV dh = c0_0;
                REALV dc = s < g.steps - 1 ? GLOAD(carried + here) : (REALV)(0);
                if (s < 0) { GSTORE(dh, by_state + here); GSTORE(dc, by_cell + here); }
                else {
                    if (g.by_out) dh += GLOAD(by_out + at);
                    const REALV in = GLOAD(kept + gate), forget = GLOAD(kept + gate + g.hidden);
                    const REALV fresh = GLOAD(kept + gate + 2 * g.hidden), show = GLOAD(kept + gate + 3 * g.hidden);
                    const REALV c = tanh(GLOAD(cells + at));
                    if (g.by_cells) dc += GLOAD(by_cells + at);
                    dc += dh * show * (1 - c * c);
                    GSTORE(dc * fresh * in * (1 - in), by_sum + gate);
                    GSTORE(dc * GLOAD(cell_before + here) * forget * (1 - forget), by_sum + gate + g.hidden);
                    GSTORE(dc * in * (1 - fresh * fresh), by_sum + gate + 2 * g.hidden);
                    GSTORE(dh * c * show * (1 - show), by_sum + gate + 3 * g.hidden);
                    GSTORE(dc * forget, carry_on + here);
                }
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
}
