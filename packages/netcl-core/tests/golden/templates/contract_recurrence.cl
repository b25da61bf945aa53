// contract_recurrence/float32_lstm_cpu_32_64
#define DTYPE_FLOAT32 1
#define GATES 4
#define VECTOR 8
#define ROWS 3
#define WIDE 4
#define BACK_ROWS 6
#define BACK_WIDE 2
#define PLACE(j) ((j) * g.hidden)
#define WEIGHT(j) ((j) * g.weight_gate)
#define TILE_UNITS 8
#define BACK_UNITS (2 * 8)
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

// All time steps of a recurrent net, and all steps back. Batch rows are independent: the work-item that owns a row runs
// all its time steps. recurrence_cells.py writes the parts: unrolled rows and vectors, and the state algebra of the
// kind of cell.
//
// One work-item: `rows` rows of the batch and `units` units of each gate, for the steps first .. last in the order of the
// walk. It runs ROWS x WIDE accumulators over the state, or BACK_ROWS x BACK_WIDE over the gradients of the next step.
// Rows and units past the end are the last ones again: computed twice, with one result. On a CPU a work-item has all
// units and iterates over all steps; elsewhere it has one unit, and a step is a launch. weight is (hidden, gates *
// hidden) in forward and (gates * hidden, hidden) in backward, or where tiles of units are whole, one such matrix for
// each tile, so that it is read in order. No local memory.

__kernel void forward(
    __global const REAL *x,
    __global const REAL *weight,
    __global const REAL *bias,
    __global const REAL *state,
    __global const REAL *cell,
    __global REAL *out,
    __global REAL *cells,
    __global REAL *kept,
    const walk g) {
    const long rows_begin = get_global_id(1) * g.rows, rows_end = min(g.n, rows_begin + g.rows);
    const long units_begin = get_global_id(0) * g.units, units_end = min(g.hidden, units_begin + g.units);
    const long plane = g.n * g.hidden;
    for (long s = g.first; s <= g.last; s++) {
        const long now = g.reverse ? g.steps - 1 - s : s, past = g.reverse ? now + 1 : now - 1;
        __global const REAL* before = s == 0 ? state : out + past * plane;
        __global const REAL* cell_before = s == 0 ? cell : cells + past * plane;
        for (long unit = units_begin; unit < units_end; unit += TILE_UNITS) {
            const long u = min(unit, g.hidden - TILE_UNITS);
            const REALV e0 = g.biased ? GLOAD(bias + u + PLACE(0)) : (REALV)(0);
            const REALV e1 = g.biased ? GLOAD(bias + u + PLACE(1)) : (REALV)(0);
            const REALV e2 = g.biased ? GLOAD(bias + u + PLACE(2)) : (REALV)(0);
            const REALV e3 = g.biased ? GLOAD(bias + u + PLACE(3)) : (REALV)(0);
            for (long r = rows_begin; r < rows_end; r += ROWS) {
                const long row0 = min(r + 0, rows_end - 1); __global const REAL* p0 = before + row0 * g.hidden;
                const long row1 = min(r + 1, rows_end - 1); __global const REAL* p1 = before + row1 * g.hidden;
                const long row2 = min(r + 2, rows_end - 1); __global const REAL* p2 = before + row2 * g.hidden;
                REALV c0_0 = 0;
                REALV c0_1 = 0;
                REALV c0_2 = 0;
                REALV c0_3 = 0;
                REALV c1_0 = 0;
                REALV c1_1 = 0;
                REALV c1_2 = 0;
                REALV c1_3 = 0;
                REALV c2_0 = 0;
                REALV c2_1 = 0;
                REALV c2_2 = 0;
                REALV c2_3 = 0;
                __global const REAL* w = weight + u * g.weight_unit;
                for (long k = 0; k < g.hidden; k++, w += g.weight_step) {
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
                    {
                        const REAL a = p1[k];
                        c1_0 += a * b0;
                        c1_1 += a * b1;
                        c1_2 += a * b2;
                        c1_3 += a * b3;
                    }
                    {
                        const REAL a = p2[k];
                        c2_0 += a * b0;
                        c2_1 += a * b1;
                        c2_2 += a * b2;
                        c2_3 += a * b3;
                    }
                }
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
                {
                    const long at = (now * g.n + row1) * g.hidden + u, gate = (now * g.n + row1) * GATES * g.hidden + u;
                    const REALV in = logistic(c1_0 + e0 + GLOAD(x + gate));
                    const REALV forget = logistic(c1_1 + e1 + GLOAD(x + gate + g.hidden));
                    const REALV fresh = tanh(c1_2 + e2 + GLOAD(x + gate + 2 * g.hidden));
                    const REALV show = logistic(c1_3 + e3 + GLOAD(x + gate + 3 * g.hidden));
                    const REALV c = forget * GLOAD(cell_before + row1 * g.hidden + u) + in * fresh;
                    GSTORE(c, cells + at);
                    GSTORE(show * tanh(c), out + at);
                    if (g.keeps) {
                        GSTORE(in, kept + gate); GSTORE(forget, kept + gate + g.hidden);
                        GSTORE(fresh, kept + gate + 2 * g.hidden); GSTORE(show, kept + gate + 3 * g.hidden);
                    }
                }
                {
                    const long at = (now * g.n + row2) * g.hidden + u, gate = (now * g.n + row2) * GATES * g.hidden + u;
                    const REALV in = logistic(c2_0 + e0 + GLOAD(x + gate));
                    const REALV forget = logistic(c2_1 + e1 + GLOAD(x + gate + g.hidden));
                    const REALV fresh = tanh(c2_2 + e2 + GLOAD(x + gate + 2 * g.hidden));
                    const REALV show = logistic(c2_3 + e3 + GLOAD(x + gate + 3 * g.hidden));
                    const REALV c = forget * GLOAD(cell_before + row2 * g.hidden + u) + in * fresh;
                    GSTORE(c, cells + at);
                    GSTORE(show * tanh(c), out + at);
                    if (g.keeps) {
                        GSTORE(in, kept + gate); GSTORE(forget, kept + gate + g.hidden);
                        GSTORE(fresh, kept + gate + 2 * g.hidden); GSTORE(show, kept + gate + 3 * g.hidden);
                    }
                }
            }
        }
    }
}

__kernel void backward(
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
    const long rows_begin = get_global_id(1) * g.rows, rows_end = min(g.n, rows_begin + g.rows);
    const long units_begin = get_global_id(0) * g.units, units_end = min(g.hidden, units_begin + g.units);
    const long plane = g.n * g.hidden;
    for (long s = g.first; s >= g.last; s--) {
        const long now = g.reverse ? g.steps - 1 - s : s;
        const long past = g.reverse ? now + 1 : now - 1, next = g.reverse ? now - 1 : now + 1;
        __global const REAL* after = by_sum + next * plane * GATES;
        __global const REAL* carried = carry + ((s + 1) & 1) * plane;
        __global REAL* carry_on = carry + (s & 1) * plane;
        __global const REAL* cell_before = s <= 0 ? cell : cells + past * plane;
        for (long unit = units_begin; unit < units_end; unit += BACK_UNITS) {
            const long u = min(unit, g.hidden - BACK_UNITS);
            for (long r = rows_begin; r < rows_end; r += BACK_ROWS) {
                const long row0 = min(r + 0, rows_end - 1); __global const REAL* p0 = after + row0 * GATES * g.hidden;
                const long row1 = min(r + 1, rows_end - 1); __global const REAL* p1 = after + row1 * GATES * g.hidden;
                const long row2 = min(r + 2, rows_end - 1); __global const REAL* p2 = after + row2 * GATES * g.hidden;
                const long row3 = min(r + 3, rows_end - 1); __global const REAL* p3 = after + row3 * GATES * g.hidden;
                const long row4 = min(r + 4, rows_end - 1); __global const REAL* p4 = after + row4 * GATES * g.hidden;
                const long row5 = min(r + 5, rows_end - 1); __global const REAL* p5 = after + row5 * GATES * g.hidden;
                REALV c0_0 = 0;
                REALV c0_1 = 0;
                REALV c1_0 = 0;
                REALV c1_1 = 0;
                REALV c2_0 = 0;
                REALV c2_1 = 0;
                REALV c3_0 = 0;
                REALV c3_1 = 0;
                REALV c4_0 = 0;
                REALV c4_1 = 0;
                REALV c5_0 = 0;
                REALV c5_1 = 0;
                if (s < g.steps - 1) {
                    __global const REAL* w = weight + u * g.weight_unit;
                    for (long k = 0; k < GATES * g.hidden; k++, w += g.weight_step) {
                        const REALV b0 = GLOAD(w + 0 * VECTOR);
                        const REALV b1 = GLOAD(w + 1 * VECTOR);
                        {
                            const REAL a = p0[k];
                            c0_0 += a * b0;
                            c0_1 += a * b1;
                        }
                        {
                            const REAL a = p1[k];
                            c1_0 += a * b0;
                            c1_1 += a * b1;
                        }
                        {
                            const REAL a = p2[k];
                            c2_0 += a * b0;
                            c2_1 += a * b1;
                        }
                        {
                            const REAL a = p3[k];
                            c3_0 += a * b0;
                            c3_1 += a * b1;
                        }
                        {
                            const REAL a = p4[k];
                            c4_0 += a * b0;
                            c4_1 += a * b1;
                        }
                        {
                            const REAL a = p5[k];
                            c5_0 += a * b0;
                            c5_1 += a * b1;
                        }
                    }
                }
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
                {
                    const long unit_at = u + 1 * VECTOR, here = row0 * g.hidden + unit_at, at = now * plane + here;
                    const long gate = (now * g.n + row0) * GATES * g.hidden + unit_at;
                    REALV dh = c0_1;
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
                {
                    const long unit_at = u + 0 * VECTOR, here = row1 * g.hidden + unit_at, at = now * plane + here;
                    const long gate = (now * g.n + row1) * GATES * g.hidden + unit_at;
                    REALV dh = c1_0;
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
                {
                    const long unit_at = u + 1 * VECTOR, here = row1 * g.hidden + unit_at, at = now * plane + here;
                    const long gate = (now * g.n + row1) * GATES * g.hidden + unit_at;
                    REALV dh = c1_1;
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
                {
                    const long unit_at = u + 0 * VECTOR, here = row2 * g.hidden + unit_at, at = now * plane + here;
                    const long gate = (now * g.n + row2) * GATES * g.hidden + unit_at;
                    REALV dh = c2_0;
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
                {
                    const long unit_at = u + 1 * VECTOR, here = row2 * g.hidden + unit_at, at = now * plane + here;
                    const long gate = (now * g.n + row2) * GATES * g.hidden + unit_at;
                    REALV dh = c2_1;
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
                {
                    const long unit_at = u + 0 * VECTOR, here = row3 * g.hidden + unit_at, at = now * plane + here;
                    const long gate = (now * g.n + row3) * GATES * g.hidden + unit_at;
                    REALV dh = c3_0;
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
                {
                    const long unit_at = u + 1 * VECTOR, here = row3 * g.hidden + unit_at, at = now * plane + here;
                    const long gate = (now * g.n + row3) * GATES * g.hidden + unit_at;
                    REALV dh = c3_1;
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
                {
                    const long unit_at = u + 0 * VECTOR, here = row4 * g.hidden + unit_at, at = now * plane + here;
                    const long gate = (now * g.n + row4) * GATES * g.hidden + unit_at;
                    REALV dh = c4_0;
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
                {
                    const long unit_at = u + 1 * VECTOR, here = row4 * g.hidden + unit_at, at = now * plane + here;
                    const long gate = (now * g.n + row4) * GATES * g.hidden + unit_at;
                    REALV dh = c4_1;
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
                {
                    const long unit_at = u + 0 * VECTOR, here = row5 * g.hidden + unit_at, at = now * plane + here;
                    const long gate = (now * g.n + row5) * GATES * g.hidden + unit_at;
                    REALV dh = c5_0;
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
                {
                    const long unit_at = u + 1 * VECTOR, here = row5 * g.hidden + unit_at, at = now * plane + here;
                    const long gate = (now * g.n + row5) * GATES * g.hidden + unit_at;
                    REALV dh = c5_1;
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
        }
    }
}
