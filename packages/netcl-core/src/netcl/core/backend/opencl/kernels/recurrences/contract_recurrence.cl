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

$kernel forward(read REAL* x, read REAL* weight, read REAL* bias, read REAL* state, read REAL* cell, write REAL* out,
        write REAL* cells, write REAL* kept, walk g) {
    const long rows_begin = get_global_id(1) * g.rows, rows_end = min(g.n, rows_begin + g.rows);
    const long units_begin = get_global_id(0) * g.units, units_end = min(g.hidden, units_begin + g.units);
    const long plane = g.n * g.hidden;
    for (long s = g.first; s <= g.last; s++) {
        const long now = g.reverse ? g.steps - 1 - s : s, past = g.reverse ? now + 1 : now - 1;
        __global const REAL* before = s == 0 ? state : out + past * plane;
        ${before}
        for (long unit = units_begin; unit < units_end; unit += TILE_UNITS) {
            const long u = min(unit, g.hidden - TILE_UNITS);
            ${biases}
            for (long r = rows_begin; r < rows_end; r += ROWS) {
                ${rows}
                ${zeros}
                __global const REAL* w = weight + u * g.weight_unit;
                for (long k = 0; k < g.hidden; k++, w += g.weight_step) {
                    ${weights}
                    ${products}
                }
                ${results}
            }
        }
    }
}

$kernel backward(read REAL* weight, read REAL* state, read REAL* cell, read REAL* out, read REAL* cells,
        read REAL* kept, read REAL* by_out, read REAL* by_cells, write REAL* by_x, write REAL* by_sum,
        write REAL* by_state, write REAL* by_cell, write REAL* carry, walk g) {
    const long rows_begin = get_global_id(1) * g.rows, rows_end = min(g.n, rows_begin + g.rows);
    const long units_begin = get_global_id(0) * g.units, units_end = min(g.hidden, units_begin + g.units);
    const long plane = g.n * g.hidden;
    for (long s = g.first; s >= g.last; s--) {
        const long now = g.reverse ? g.steps - 1 - s : s;
        const long past = g.reverse ? now + 1 : now - 1, next = g.reverse ? now - 1 : now + 1;
        __global const REAL* after = by_sum + next * plane * GATES;
        __global const REAL* carried = carry + ((s + 1) & 1) * plane;
        __global REAL* carry_on = carry + (s & 1) * plane;
        ${before_back}
        for (long unit = units_begin; unit < units_end; unit += BACK_UNITS) {
            const long u = min(unit, g.hidden - BACK_UNITS);
            for (long r = rows_begin; r < rows_end; r += BACK_ROWS) {
                ${rows_back}
                ${zeros_back}
                if (s < g.steps - 1) {
                    __global const REAL* w = weight + u * g.weight_unit;
                    for (long k = 0; k < GATES * g.hidden; k++, w += g.weight_step) {
                        ${weights_back}
                        ${products_back}
                    }
                }
                ${gradients}
            }
        }
    }
}
