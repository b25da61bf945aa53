// Minimal filtering on GPUs: G^T u G, the gradient of the weights from the partial sums [part][SIDE^2][element] of split-K; a
// work-item for each pair of channels.

$kernel weight_sums(read REAL sums, write STORAGE out, long size, long parts) {
    const size_t element = get_global_id(0);
    if (element >= (size_t)size) return;
    REALV one[SIDE][SIDE], two[3][SIDE], three[3][3];
    _Pragma("unroll") for (int i = 0; i < SIDE; i++)
        _Pragma("unroll") for (int j = 0; j < SIDE; j++) one[i][j] = 0;
    sums += element;
    for (long part = 0; part < parts; part++, sums += SIDE * SIDE * size)
        _Pragma("unroll") for (int i = 0; i < SIDE; i++)
            _Pragma("unroll") for (int j = 0; j < SIDE; j++) one[i][j] += sums[(i * SIDE + j) * size];
    BOTH(SUMS, SIDE, 3)
    _Pragma("unroll") for (int i = 0; i < 3; i++)
        _Pragma("unroll") for (int j = 0; j < 3; j++) STORE(three[i][j], out, element * 9 + i * 3 + j);
}
