$kernel [ITEMS, 1, 1] attend_on_unit(read ushort q, read ushort k, read ushort v, read void mask, write STORAGE out,
        write float lse, attention geometry, float scale) {
    __local ushort q_tile[TILE_SIZE(TILE, WIDTH)] ALIGNED_TILES, k_tiles[2 * TILE_SIZE(BLOCK, WIDTH)] ALIGNED_TILES;
    __local ushort v_tiles[2 * TILE_SIZE(BLOCK, VALUES)] ALIGNED_TILES;
    UNIT_MEMORY(geometry.queries)
    NUMBERS
    const long head = get_group_id(1), tile = CAUSAL ? get_num_groups(0) - 1 - get_group_id(0) : get_group_id(0);
    const long first = tile * TILE, queries = min((long)TILE, g.queries - first), mask_begin = MASK_BEGIN(head);
    const long end = CAUSAL ? min(g.keys, first + queries) : g.keys;
    q += (head * g.queries + first) * width;
    k += head / g.shared * g.keys * width;
    v += head / g.shared * g.keys * values;
    float sums[FRAGMENTS][VALUES / 8][4], top[FRAGMENTS][2], total[FRAGMENTS][2];
    CLEAR(sums, VALUES);
    EACH_ROW EACH_FRAGMENT for (int h = 0; h < 2; h++) {
        top[i][h] = NEVER;
        total[i][h] = 0;
    }
    FRAGMENTS_OF(q, WIDTH)
    COPY_WIDTH(q_tile, TILE, q, g.q_heads, g.queries, queries);
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
        }
        float scores[FRAGMENTS][BLOCK / 8][4];
        MULTIPLY_ROWS(scores, q, k_tile, WIDTH)
        SCALE_SCORES(scores)
        HIDE(scores, next <= g.keys && (!CAUSAL || next <= first + 1), first + TILE_ROW(i, e), start + COLUMN(j, e))
        EACH_ROW EACH_FRAGMENT for (int h = 0; h < 2; h++) {
            float most = top[i][h];
            EACH_COLUMN(BLOCK) most = fmax(most, fmax(scores[i][j][h * 2], scores[i][j][h * 2 + 1]));
            most = QUAD_MAX(most);
            const float largest = most == NEVER ? 0.0f : COMPARED(most);
            const float factor = exponential(EXPONENT(top[i][h], largest));
            total[i][h] *= factor;
            EACH_COLUMN(BLOCK) EACH_FRAGMENT for (int e = h * 2; e < h * 2 + 2; e++) {
                scores[i][j][e] = exponential(EXPONENT(scores[i][j][e], largest));
                total[i][h] += scores[i][j][e];
            }
            EACH_COLUMN(VALUES) EACH_FRAGMENT for (int e = h * 2; e < h * 2 + 2; e++) sums[i][j][e] *= factor;
            top[i][h] = most;
        }
        ADD_WEIGHTED(sums, scores, v_tile, VALUES)
        reading = 1 - reading;
    }
    EACH_ROW EACH_FRAGMENT for (int h = 0; h < 2; h++) {
        total[i][h] = QUAD_SUM(total[i][h]);
        const int row = TILE_ROW(i, h * 2);
        if (lane % 4 == 0 && row < queries)
            lse[head * g.queries + first + row] = total[i][h] == 0 ? INFINITY : LOGARITHM(top[i][h]) + log(total[i][h]);
        total[i][h] = total[i][h] == 0 ? 0.0f : 1 / total[i][h];
    }
    out += (head * g.queries + first) * values;
    WRITE(sums, out, queries, values, VALUES, total[i][h])
}
