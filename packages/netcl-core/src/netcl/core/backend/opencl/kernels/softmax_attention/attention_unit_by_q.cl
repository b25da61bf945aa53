$kernel [ITEMS, 1, 1] unit_by_q(read ushort grad, read ushort q, read ushort k, read ushort v, read void mask,
        read float lse, read float inner, write STORAGE q_grad, attention geometry, float scale) {
    __local ushort q_tile[TILE_SIZE(TILE, WIDTH)] ALIGNED_TILES, grad_tile[TILE_SIZE(TILE, VALUES)] ALIGNED_TILES;
    __local ushort k_tiles[2 * TILE_SIZE(BLOCK, WIDTH)] ALIGNED_TILES, v_tiles[2 * TILE_SIZE(BLOCK, VALUES)] ALIGNED_TILES;
    UNIT_MEMORY(geometry.queries)
    NUMBERS
    const long head = get_group_id(1), tile = CAUSAL ? get_num_groups(0) - 1 - get_group_id(0) : get_group_id(0);
    const long first = tile * TILE, queries = min((long)TILE, g.queries - first), mask_begin = MASK_BEGIN(head);
    const long end = CAUSAL ? min(g.keys, first + queries) : g.keys;
    q += (head * g.queries + first) * width;
    grad += (head * g.queries + first) * values;
    k += head / g.shared * g.keys * width;
    v += head / g.shared * g.keys * values;
    float sums[FRAGMENTS][WIDTH / 8][4], divided[FRAGMENTS][2], mean[FRAGMENTS][2];
    CLEAR(sums, WIDTH);
    EACH_ROW EACH_FRAGMENT for (int h = 0; h < 2; h++) {
        const int row = TILE_ROW(i, h * 2);
        divided[i][h] = row < queries ? OF_LOGARITHM(lse[head * g.queries + first + row]) : INFINITY;
        mean[i][h] = row < queries ? inner[head * g.queries + first + row] : 0.0f;
    }
    FRAGMENTS_OF(q, WIDTH)
    FRAGMENTS_OF(grad, VALUES)
    COPY_WIDTH(q_tile, TILE, q, g.q_heads, g.queries, queries);
    COPY_VALUES(grad_tile, TILE, grad, g.q_heads, g.queries, queries);
    COPY_WIDTH(k_tiles, BLOCK, k, g.k_heads, g.keys, end);
    COPY_VALUES(v_tiles, BLOCK, v, g.k_heads, g.keys, end);
    COPIES_END;
    int reading = 0;
    for (long start = 0; start < end; start += BLOCK) {
        COPIES_WAIT;
        barrier(CLK_LOCAL_MEM_FENCE);
        const long next = start + BLOCK;
        if (next < end) {
            COPY_WIDTH(k_tiles + (1 - reading) * TILE_SIZE(BLOCK, WIDTH), BLOCK, k + next * width, g.k_heads, g.keys, end - next);
            COPY_VALUES(v_tiles + (1 - reading) * TILE_SIZE(BLOCK, VALUES), BLOCK, v + next * values, g.k_heads, g.keys, end - next);
        }
        COPIES_END;
        __local const ushort* k_tile = k_tiles + reading * TILE_SIZE(BLOCK, WIDTH);
        __local const ushort* v_tile = v_tiles + reading * TILE_SIZE(BLOCK, VALUES);
        if (start == 0) {
            LOAD_FRAGMENTS(q, WIDTH)
            LOAD_FRAGMENTS(grad, VALUES)
        }
        float scores[FRAGMENTS][BLOCK / 8][4], slopes[FRAGMENTS][BLOCK / 8][4];
        MULTIPLY_ROWS(scores, q, k_tile, WIDTH)
        SCALE_SCORES(scores)
        MULTIPLY_ROWS(slopes, grad, v_tile, VALUES)
        HIDE(scores, next <= g.keys && (!CAUSAL || next <= first + 1), first + TILE_ROW(i, e), start + COLUMN(j, e))
        EACH_ROW EACH_COLUMN(BLOCK) EACH_ELEMENT
            slopes[i][j][e] = exponential(EXPONENT(scores[i][j][e], divided[i][e / 2])) * (slopes[i][j][e] - mean[i][e / 2]);
        ADD_WEIGHTED(sums, slopes, k_tile, WIDTH)
        reading = 1 - reading;
    }
    q_grad += (head * g.queries + first) * width;
    WRITE(sums, q_grad, queries, width, WIDTH, scale)
}
