// The block of queries `number` of all heads that share keys, each head's from the first one that sees the tile: its head and
// its first query.
#define HEAD_OF(number) (shared * g.shared + (number) / each)
#define QUERY_OF(number) (begin + (number) % each * BLOCK)
#define COPY_QUERIES(number, stage) { \
        const long at = HEAD_OF(number) * g.queries + QUERY_OF(number), count = g.queries - QUERY_OF(number); \
        COPY_WIDTH(q_tiles + (stage) * TILE_SIZE(BLOCK, WIDTH), BLOCK, q + at * width, g.q_heads, g.queries, count); \
        COPY_VALUES(grad_tiles + (stage) * TILE_SIZE(BLOCK, VALUES), BLOCK, grad + at * values, g.q_heads, g.queries, count); \
        for (int i = item; i < BLOCK; i += ITEMS) { \
            divided[(stage) * BLOCK + i] = i < count ? OF_LOGARITHM(lse[at + i]) : INFINITY; \
            mean[(stage) * BLOCK + i] = i < count ? inner[at + i] : 0.0f; \
        } \
    }

$kernel [ITEMS, 1, 1] unit_by_k_v(read ushort grad, read ushort q, read ushort k, read ushort v, read void mask,
        read float lse, read float inner, write STORAGE k_grad, write STORAGE v_grad, attention geometry, float scale) {
    __local ushort k_tile[TILE_SIZE(TILE, WIDTH)] ALIGNED_TILES, v_tile[TILE_SIZE(TILE, VALUES)] ALIGNED_TILES;
    __local ushort q_tiles[2 * TILE_SIZE(BLOCK, WIDTH)] ALIGNED_TILES, grad_tiles[2 * TILE_SIZE(BLOCK, VALUES)] ALIGNED_TILES;
    __local float divided[2 * BLOCK], mean[2 * BLOCK];
    UNIT_MEMORY(geometry.queries)
    NUMBERS
    const long shared = get_group_id(1), first = (long)get_group_id(0) * TILE, keys = min((long)TILE, g.keys - first);
    const long begin = CAUSAL ? first / BLOCK * BLOCK : 0;
    const int each = max((g.queries - begin + BLOCK - 1) / BLOCK, (long)0), blocks = each * g.shared;
    k += (shared * g.keys + first) * width;
    v += (shared * g.keys + first) * values;
    float k_sums[FRAGMENTS][WIDTH / 8][4], v_sums[FRAGMENTS][VALUES / 8][4];
    CLEAR(k_sums, WIDTH);
    CLEAR(v_sums, VALUES);
    FRAGMENTS_OF(k, WIDTH)
    FRAGMENTS_OF(v, VALUES)
    if (blocks > 0) {
        COPY_WIDTH(k_tile, TILE, k, g.k_heads, g.keys, keys);
        COPY_VALUES(v_tile, TILE, v, g.k_heads, g.keys, keys);
        COPY_QUERIES(0, 0)
    }
    COPIES_END;
    int reading = 0;
    for (int number = 0; number < blocks; number++) {
        COPIES_WAIT;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (number + 1 < blocks) COPY_QUERIES(number + 1, 1 - reading)
        COPIES_END;
        __local const ushort* q_tile = q_tiles + reading * TILE_SIZE(BLOCK, WIDTH);
        __local const ushort* grad_tile = grad_tiles + reading * TILE_SIZE(BLOCK, VALUES);
        const long start = QUERY_OF(number), mask_begin = MASK_BEGIN(HEAD_OF(number));
        if (number == 0) {
            LOAD_FRAGMENTS(k, WIDTH)
            LOAD_FRAGMENTS(v, VALUES)
        }
        float scores[FRAGMENTS][BLOCK / 8][4];
        MULTIPLY_ROWS(scores, k, q_tile, WIDTH)
        SCALE_SCORES(scores)
        HIDE(scores, first + TILE <= g.keys && start + BLOCK <= g.queries && (!CAUSAL || first + TILE <= start + 1), start + COLUMN(j, e), first + TILE_ROW(i, e))
        EACH_ROW EACH_COLUMN(BLOCK) EACH_ELEMENT
            scores[i][j][e] = exponential(EXPONENT(scores[i][j][e], divided[reading * BLOCK + COLUMN(j, e)]));
        ADD_WEIGHTED(v_sums, scores, grad_tile, VALUES)
        float slopes[FRAGMENTS][BLOCK / 8][4];
        MULTIPLY_ROWS(slopes, v, grad_tile, VALUES)
        EACH_ROW EACH_COLUMN(BLOCK) EACH_ELEMENT
            slopes[i][j][e] = scores[i][j][e] * (slopes[i][j][e] - mean[reading * BLOCK + COLUMN(j, e)]);
        ADD_WEIGHTED(k_sums, slopes, q_tile, WIDTH)
        reading = 1 - reading;
    }
    WRITE(k_sums, k_grad + (shared * g.keys + first) * width, keys, width, WIDTH, scale)
    WRITE(v_sums, v_grad + (shared * g.keys + first) * values, keys, values, VALUES, 1)
}
