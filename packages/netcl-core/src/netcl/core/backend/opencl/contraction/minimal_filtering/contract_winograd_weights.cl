// Minimal filtering on GPUs: G w G^T of weights, [SIDE^2][row][column]; a work-item for each pair of channels.

typedef struct {
    long rows, columns, row_step, column_step, flipped;
} weights;

$kernel weight_tiles(read STORAGE w, write REAL tiles, weights g) {
    const size_t column = get_global_id(0), row = get_global_id(1);
    if (column >= (size_t)g.columns) return;
    w += row * g.row_step + column * g.column_step;
    REALV one[3][3], two[SIDE][3], three[SIDE][SIDE];
    _Pragma("unroll") for (int i = 0; i < 3; i++)
        _Pragma("unroll") for (int j = 0; j < 3; j++) one[i][j] = LOAD(w, g.flipped ? 8 - i * 3 - j : i * 3 + j);
    BOTH(WEIGHT, 3, SIDE)
    const size_t step = (size_t)g.rows * g.columns;
    tiles += row * g.columns + column;
    _Pragma("unroll") for (int i = 0; i < SIDE; i++)
        _Pragma("unroll") for (int j = 0; j < SIDE; j++) tiles[(i * SIDE + j) * step] = three[i][j];
}
