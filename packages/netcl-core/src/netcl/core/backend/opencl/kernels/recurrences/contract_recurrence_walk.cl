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

