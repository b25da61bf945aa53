// contract_recurrence/float32_lstm_cpu_32_64
#define DTYPE_FLOAT32 1
#define KIND 0
#define GATES 4
#define VECTOR 8
#define ROWS 3
#define WIDE 4
#define BACK_ROWS 6
#define BACK_WIDE 2
#define EACH_ROW EACH_3
#define EACH_BACK_ROW EACH_6
#define EACH_WIDE BESIDE_4
#define EACH_BACK_WIDE BESIDE_2
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
// All steps of a recurrent net, and all steps back: rows of a batch do not meet, so whoever has rows walks their steps.
//
// forward    s = x[t] + bias + h[t-1] W^T for each gate, and then by KIND (gates i f g o; r z n; one):
//            lstm  c[t] = sigmoid(f) c[t-1] + sigmoid(i) tanh(g), h[t] = sigmoid(o) tanh(c[t])
//            gru   n = tanh(x_n + sigmoid(r) q) with q the n of bias + h[t-1] W^T,
//                  h[t] = (1 - sigmoid(z)) n + sigmoid(z) h[t-1]
//            tanh  h[t] = tanh(s), relu  h[t] = max(s, 0)
//            `kept` has what the gates became, 4 * hidden for each row: i f g o, or r z n q.
// backward   the gradients by s (`by_sum`, gates * hidden for each row) and, for gru, by x (`by_x`), from the last step to
//            the first, and those by h and c before the first step. `carry` (2, n, hidden) has what goes to the step
//            before without a weight; its two halves take turns.
//
// One work-item: `rows` rows of the batch and `units` units of each gate, for the steps first .. last in the order of the
// walk. It runs ROWS x WIDE accumulators over the state, or BACK_ROWS x BACK_WIDE over the gradients of the next step.
// Rows and units past the end are the last ones again: computed twice, with one result. On a CPU a work-item has all
// units and walks all steps; elsewhere it has one unit, and a step is a launch. weight is (hidden, gates * hidden) in
// forward and (gates * hidden, hidden) in backward. No local memory.

#ifndef VECTOR
#define VECTOR 1
#define REALV REAL
#define GLOAD(p) (*(p))
#define GSTORE(x, p) (*(p) = (x))
#endif

typedef struct {
    long steps, n, hidden, reverse, first, last, rows, units;
    long biased, by_out, by_cells;  // whether these are there
} walk;

// EACH_ROW, EACH_WIDE and their twins for the way back are defined as one of these before this text.
#define EACH_1(F) F(0)
#define EACH_3(F) F(0) F(1) F(2)
#define EACH_4(F) F(0) F(1) F(2) F(3)
#define EACH_6(F) F(0) F(1) F(2) F(3) F(4) F(5)
#define EACH_8(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#define BESIDE_1(F, i) F(i, 0)
#define BESIDE_2(F, i) F(i, 0) F(i, 1)
#define BESIDE_3(F, i) F(i, 0) F(i, 1) F(i, 2)
#define BESIDE_4(F, i) F(i, 0) F(i, 1) F(i, 2) F(i, 3)

static inline REALV logistic(const REALV x) { return 1 / (1 + exp(-x)); }

// Where the column block j of a tile begins: a gate each, or neighbouring units where there is one gate.
#if GATES == 1
#define PLACE(j) ((j) * VECTOR)
#define TILE_UNITS (WIDE * VECTOR)
#else
#define PLACE(j) ((j) * g.hidden)
#define TILE_UNITS VECTOR
#endif
#define BACK_UNITS (BACK_WIDE * VECTOR)

#define ROW(i) const long row##i = min(r + i, rows_end - 1); __global const REAL* p##i = before + row##i * g.hidden;
#define ZERO(i, j) REALV c##i##_##j = 0;
#define ZEROS(i) EACH_WIDE(ZERO, i)
#define WEIGHT(i, j) const REALV b##j = GLOAD(w + PLACE(j));
#define TERM(i, j) c##i##_##j += a * b##j;
#define TERMS(i) { const REAL a = p##i[k]; EACH_WIDE(TERM, i) }
#define BIAS(i, j) const REALV e##j = g.biased ? GLOAD(bias + u + PLACE(j)) : (REALV)(0);

#if KIND == 0  // lstm
#define FINISH(i) { \
    const long at = (now * g.n + row##i) * g.hidden + u, gate = (now * g.n + row##i) * GATES * g.hidden + u; \
    const REALV in = logistic(c##i##_0 + e0 + GLOAD(x + gate)); \
    const REALV forget = logistic(c##i##_1 + e1 + GLOAD(x + gate + g.hidden)); \
    const REALV fresh = tanh(c##i##_2 + e2 + GLOAD(x + gate + 2 * g.hidden)); \
    const REALV show = logistic(c##i##_3 + e3 + GLOAD(x + gate + 3 * g.hidden)); \
    const REALV c = forget * GLOAD(cell_before + row##i * g.hidden + u) + in * fresh; \
    GSTORE(c, cells + at); \
    GSTORE(show * tanh(c), out + at); \
    GSTORE(in, kept + gate); GSTORE(forget, kept + gate + g.hidden); \
    GSTORE(fresh, kept + gate + 2 * g.hidden); GSTORE(show, kept + gate + 3 * g.hidden); \
}
#elif KIND == 1  // gru
#define FINISH(i) { \
    const long at = (now * g.n + row##i) * g.hidden + u, gate = at + (now * g.n + row##i) * 2 * g.hidden; \
    const long keep = at + (now * g.n + row##i) * 3 * g.hidden; \
    const REALV reset = logistic(c##i##_0 + e0 + GLOAD(x + gate)); \
    const REALV stay = logistic(c##i##_1 + e1 + GLOAD(x + gate + g.hidden)); \
    const REALV own = c##i##_2 + e2; \
    const REALV fresh = tanh(GLOAD(x + gate + 2 * g.hidden) + reset * own); \
    GSTORE((1 - stay) * fresh + stay * GLOAD(before + row##i * g.hidden + u), out + at); \
    GSTORE(reset, kept + keep); GSTORE(stay, kept + keep + g.hidden); \
    GSTORE(fresh, kept + keep + 2 * g.hidden); GSTORE(own, kept + keep + 3 * g.hidden); \
}
#else
#if KIND == 2
#define ACTIVATION(x) tanh(x)
#else
#define ACTIVATION(x) fmax((x), (REALV)(0))
#endif
#define SHOW(i, j) { \
    const long at = (now * g.n + row##i) * g.hidden + u + PLACE(j); \
    GSTORE(ACTIVATION(c##i##_##j + e##j + GLOAD(x + at)), out + at); \
}
#define FINISH(i) EACH_WIDE(SHOW, i)
#endif

__kernel void forward(__global const REAL* x, __global const REAL* weight, __global const REAL* bias,
                      __global const REAL* state, __global const REAL* cell, __global REAL* out, __global REAL* cells,
                      __global REAL* kept, const walk g) {
    const long rows_begin = get_global_id(1) * g.rows, rows_end = min(g.n, rows_begin + g.rows);
    const long units_begin = get_global_id(0) * g.units, units_end = min(g.hidden, units_begin + g.units);
    const long plane = g.n * g.hidden;
    for (long s = g.first; s <= g.last; s++) {
        const long now = g.reverse ? g.steps - 1 - s : s, past = g.reverse ? now + 1 : now - 1;
        __global const REAL* before = s == 0 ? state : out + past * plane;
#if KIND == 0
        __global const REAL* cell_before = s == 0 ? cell : cells + past * plane;
#endif
        for (long unit = units_begin; unit < units_end; unit += TILE_UNITS) {
            const long u = min(unit, g.hidden - TILE_UNITS);
            EACH_WIDE(BIAS, 0)
            for (long r = rows_begin; r < rows_end; r += ROWS) {
                EACH_ROW(ROW)
                EACH_ROW(ZEROS)
                __global const REAL* w = weight + u;
                for (long k = 0; k < g.hidden; k++, w += GATES * g.hidden) {
                    EACH_WIDE(WEIGHT, 0)
                    EACH_ROW(TERMS)
                }
                EACH_ROW(FINISH)
            }
        }
    }
}

#define BACK_ROW(i) const long row##i = min(r + i, rows_end - 1); \
    __global const REAL* p##i = after + row##i * GATES * g.hidden;
#define BACK_ZEROS(i) EACH_BACK_WIDE(ZERO, i)
#define BACK_WEIGHT(i, j) const REALV b##j = GLOAD(w + j * VECTOR);
#define BACK_TERMS(i) { const REAL a = p##i[k]; EACH_BACK_WIDE(TERM, i) }

// dh: the gradient by h[t] that came through the weights. Gives those of the gates at this step, or those of the states
// before the first.
#define SETTLE(i, j) { \
    const long unit_at = u + j * VECTOR, here = row##i * g.hidden + unit_at, at = now * plane + here; \
    const long gate = (now * g.n + row##i) * GATES * g.hidden + unit_at; \
    REALV dh = c##i##_##j; \
    CARRIED \
    if (s < 0) { FIRST } \
    else { \
        if (g.by_out) dh += GLOAD(by_out + at); \
        STEP_BACK \
    } \
}
#define SETTLE_ROW(i) EACH_BACK_WIDE(SETTLE, i)

#if KIND == 0
#define CARRIED REALV dc = s < g.steps - 1 ? GLOAD(carried + here) : (REALV)(0);
#define FIRST GSTORE(dh, by_state + here); GSTORE(dc, by_cell + here);
#define STEP_BACK \
    const REALV in = GLOAD(kept + gate), forget = GLOAD(kept + gate + g.hidden); \
    const REALV fresh = GLOAD(kept + gate + 2 * g.hidden), show = GLOAD(kept + gate + 3 * g.hidden); \
    const REALV c = tanh(GLOAD(cells + at)); \
    if (g.by_cells) dc += GLOAD(by_cells + at); \
    dc += dh * show * (1 - c * c); \
    GSTORE(dc * fresh * in * (1 - in), by_sum + gate); \
    GSTORE(dc * GLOAD(cell_before + here) * forget * (1 - forget), by_sum + gate + g.hidden); \
    GSTORE(dc * in * (1 - fresh * fresh), by_sum + gate + 2 * g.hidden); \
    GSTORE(dh * c * show * (1 - show), by_sum + gate + 3 * g.hidden); \
    GSTORE(dc * forget, carry_on + here);
#elif KIND == 1
#define CARRIED if (s < g.steps - 1) dh += GLOAD(carried + here);
#define FIRST GSTORE(dh, by_state + here);
#define STEP_BACK \
    const long keep = (now * g.n * g.hidden + here - unit_at) * 4 + unit_at; \
    const REALV reset = GLOAD(kept + keep), stay = GLOAD(kept + keep + g.hidden); \
    const REALV fresh = GLOAD(kept + keep + 2 * g.hidden), own = GLOAD(kept + keep + 3 * g.hidden); \
    const REALV dn = dh * (1 - stay) * (1 - fresh * fresh), dr = dn * own * reset * (1 - reset); \
    const REALV dz = dh * (GLOAD(before + here) - fresh) * stay * (1 - stay); \
    GSTORE(dr, by_x + gate); GSTORE(dz, by_x + gate + g.hidden); GSTORE(dn, by_x + gate + 2 * g.hidden); \
    GSTORE(dr, by_sum + gate); GSTORE(dz, by_sum + gate + g.hidden); GSTORE(dn * reset, by_sum + gate + 2 * g.hidden); \
    GSTORE(dh * stay, carry_on + here);
#else
#define CARRIED
#define FIRST GSTORE(dh, by_state + here);
#if KIND == 2
#define STEP_BACK const REALV h = GLOAD(out + at); GSTORE(dh * (1 - h * h), by_sum + gate);
#else
#define STEP_BACK const REALV h = GLOAD(out + at); GSTORE(h > 0 ? dh : (REALV)(0), by_sum + gate);
#endif
#endif

__kernel void backward(__global const REAL* weight, __global const REAL* state, __global const REAL* cell,
                       __global const REAL* out, __global const REAL* cells, __global const REAL* kept,
                       __global const REAL* by_out, __global const REAL* by_cells, __global REAL* by_x,
                       __global REAL* by_sum, __global REAL* by_state, __global REAL* by_cell, __global REAL* carry,
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
#if KIND == 0
        __global const REAL* cell_before = s <= 0 ? cell : cells + past * plane;
#elif KIND == 1
        __global const REAL* before = s <= 0 ? state : out + past * plane;
#endif
        for (long unit = units_begin; unit < units_end; unit += BACK_UNITS) {
            const long u = min(unit, g.hidden - BACK_UNITS);
            for (long r = rows_begin; r < rows_end; r += BACK_ROWS) {
                EACH_BACK_ROW(BACK_ROW)
                EACH_BACK_ROW(BACK_ZEROS)
                if (s < g.steps - 1) {
                    __global const REAL* w = weight + u;
                    for (long k = 0; k < GATES * g.hidden; k++, w += g.hidden) {
                        EACH_BACK_WIDE(BACK_WEIGHT, 0)
                        EACH_BACK_ROW(BACK_TERMS)
                    }
                }
                EACH_BACK_ROW(SETTLE_ROW)
            }
        }
    }
}
