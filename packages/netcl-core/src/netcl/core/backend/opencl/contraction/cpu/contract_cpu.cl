// Blocked GEMM for CPU devices: out[z][i][j] = sum_k A[z][i][k] * B[z][k][j], one template for matrix products and for all
// three directions of convolution.
//
// The reduced index k and the column index j each count through four levels with strides of their own, so that B may be a
// matrix, the windows of a padded image, or those windows transposed; columns of `out` have strides as well.
//
// pack_rows  copies A into panels of ROWS rows, [tile][k][ROWS], zeros below the last row. One work-item: one tile,
//            or TOGETHER if rows are contiguous, one step of the outermost level of k.
// contract   one work-item: a strip of COLUMNS = VECTORS * VECTOR columns times a chunk of row tiles. It copies DEPTH
//            rows of its strip of B to local memory (on a CPU: its thread's own cache) and runs ROWS x COLUMNS
//            accumulators over them. Sums over more than DEPTH rows are kept in `sums`, where sums of RUN products each
//            are added: this reduces the rounding error of long sums. Work-groups have one work-item.
//            Local memory: (DEPTH + CHUNK * ROWS) * COLUMNS elements.
//
// Sums go through epilogue(sum, operands...) if requested (see contract_operands.cl).
// Contraction of a*b+c into one rounding is allowed here. transposes.py writes the transposition of blocks in registers.

${transposes}

#define STEP 64
#define TOGETHER 4
#define ALL_RUNS ((1 << VECTORS) - 1)

typedef struct {
    long m, k, n;
    long chunk, chunks, strips, splits, split;  // tiles per chunk, chunks of rows, strips of columns, splits of k, k per split
    long inner_batch, accumulate, parts;
    long a_row, a_k, a_tile;  // from one row, step of k, tile of rows of A to the next
    long a_batch[2], b_batch[2], out_batch[2];
    long a_offset, b_offset, out_offset, out_row, out_part;
    long k_extent[4], b_k[4], n_extent[4], b_n[4], out_n[4];
    long finished;  // 1 if the sums go through epilogue()
    operand operands[OPERANDS];
} contraction;

typedef struct {
    long m, row, tiles, together, k, inner_batch, offset;  // together: tiles of a work-item
    long batch[2];
    long k_extent[4], k_stride[4];
} packing;

#ifdef ROUNDED_LATER
// Elements that are stored in float32 are rounded when the tile is complete, in whole vectors: in the loops that gather
// them, Intel's compiler makes scatters of it, which take up to 20 times as long.
#define COPIED(p, i) ((p)[i])
#define COPIED_VECTOR(p) GLOAD(p)
static inline void round_panel(__global REAL* panel, const long count) {
    long i = 0;
    for (; i + VECTOR <= count; i += VECTOR) GSTORE(rounded_vector(GLOAD(panel + i)), panel + i);
    for (; i < count; i++) panel[i] = rounded(panel[i]);
}
#else
#define COPIED(p, i) LOAD(p, i)
#define COPIED_VECTOR(p) VLOAD(p)
#define round_panel(panel, count)
#endif

#define PACK(i) panels[k * ROWS + i] = COPIED(from, i * g.row);
#define FROM_ROW(i) COPIED_VECTOR(run + i * g.row + k)
#define TO_PANEL(i, x) GSTORE(x, panels + k * ROWS + i * VECTOR);

// One tile of `rows` rows, a panel of g.k / g.k_extent[0] steps.
static inline void pack_tile(__global const STORAGE* a, __global REAL* panels, const long rows, const packing g) {
    const long inner = g.k_extent[3];
    for (long k1 = 0; k1 < g.k_extent[1]; k1++)
        for (long k2 = 0; k2 < g.k_extent[2]; k2++) {
            __global const STORAGE* run = a + k1 * g.k_stride[1] + k2 * g.k_stride[2];
            if (rows == ROWS) {
                long k = 0;
#if ROWS == 4 || ROWS == 8
                if (g.k_stride[3] == 1) {
                    #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
                    for (; k + VECTOR <= inner; k += VECTOR) JOIN(TURN_, ROWS)(FROM_ROW, TO_PANEL)
                }
#endif
                for (; k < inner; k++) {
                    __global const STORAGE* from = run + k * g.k_stride[3];
                    EACH_ROW(PACK)
                }
            }
            else for (long start = 0; start < inner; start += STEP) {
                const long stop = min(inner, start + STEP);
                for (long i = 0; i < rows; i++)
                    for (long k = start; k < stop; k++)
                        panels[k * ROWS + i] = COPIED(run, i * g.row + k * g.k_stride[3]);
                for (long i = rows; i < ROWS; i++)
                    for (long k = start; k < stop; k++) panels[k * ROWS + i] = 0;
            }
            panels += inner * ROWS;
        }
}

$kernel LOOPS pack_rows(read STORAGE a, write REAL panels, packing g) {
    const size_t outer = get_global_id(0), z = get_global_id(2);
    const long first = get_global_id(1) * g.together, last = min(g.tiles, first + g.together);
    const size_t panel = (size_t)g.k * ROWS, steps = g.k / g.k_extent[0];
    a += g.offset + (long)(z / g.inner_batch) * g.batch[0] + (long)(z % g.inner_batch) * g.batch[1]
         + first * ROWS * g.row + (long)outer * g.k_stride[0];
    panels += (z * g.tiles + first) * panel + outer * steps * ROWS;
    if (last - first == TOGETHER && last * ROWS <= g.m) {
        // Rows are contiguous: one step of k of several tiles is a run.
        #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
        for (long k = 0; k < steps; k++, a += g.k_stride[3], panels += ROWS)
            for (int t = 0; t < TOGETHER; t++)
                for (int i = 0; i < ROWS; i++) panels[t * panel + i] = LOAD(a, t * ROWS + i);
    }
    else for (long tile = first; tile < last; tile++, a += ROWS * g.row, panels += panel) {
        pack_tile(a, panels, min((long)ROWS, g.m - tile * ROWS), g);
        round_panel(panels, steps * ROWS);
    }
}

// A is copied into panels of the computing type, or with A_STORED read in place in its own.
#ifdef A_STORED
#define A_TYPE A_STORAGE
#define A_AT(p, i) A_LOAD(p, i)
#else
#define A_TYPE REAL
#define A_AT(p, i) p[i]
#endif

#define POINT(i) __global const A_TYPE* a##i = ap + min((long)i, rows - 1) * g.a_row;

#define FROM_COLUMN(i) B_VLOAD(source + from[v * VECTOR + i] + k)
#define TO_STRIP(i, x) ((__local REALV*)strip)[(done + k + i) * VECTORS + v] = x;

// Copies rows k_begin .. k_begin + depth of the strip with columns at from[] into `strip`. Bit v of `runs` is set
// if the columns of vector v follow each other in memory.
// No `restrict` here: inlined, it becomes an intrinsic that oclgrind does not know.
static inline void fill_strip(__global const B_STORAGE* b, __local REAL* strip, const long* from, const int runs,
                       const long columns, const long k_begin, const long depth, const contraction* g) {
    // Runs along k, of a transposed matrix or of the images in a gradient of weights: blocks are transposed in registers.
    const bool turned = !runs && g->b_k[3] == 1 && g->k_extent[3] >= VECTOR;
    long index[4], rest = k_begin;
    for (int d = 3; d >= 0; d--) {
        index[d] = rest % g->k_extent[d];
        rest /= g->k_extent[d];
    }
    long done = 0;
    while (done < depth) {
        const long length = min(depth - done, g->k_extent[3] - index[3]);
        __global const B_STORAGE* source = b + index[0] * g->b_k[0] + index[1] * g->b_k[1] + index[2] * g->b_k[2] + index[3] * g->b_k[3];
        const long step = g->b_k[3];
        if (runs == ALL_RUNS)
            for (long k = 0; k < length; k++)
                for (int v = 0; v < VECTORS; v++)
                    ((__local REALV*)strip)[(done + k) * VECTORS + v] = B_VLOAD(source + from[v * VECTOR] + k * step);
        else if (turned) {
            const long blocks = length - length % VECTOR;
            #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
            for (long k = 0; k < blocks; k += VECTOR)
                #pragma clang loop unroll(disable)
                for (int v = 0; v < VECTORS; v++) JOIN(TURN_, VECTOR)(FROM_COLUMN, TO_STRIP)
            #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
            for (long k = blocks; k < length; k++)
                for (long j = 0; j < COLUMNS; j++) strip[(done + k) * COLUMNS + j] = B_LOAD(source, from[j] + k);
        }
        else for (int v = 0; v < VECTORS; v++) {
            __local REALV* vectors = (__local REALV*)strip + done * VECTORS + v;
            __local REAL* lanes = (__local REAL*)vectors;
            const long* first = from + v * VECTOR;
            const long used = min((long)VECTOR, columns - v * VECTOR);
            if (runs >> v & 1)
                for (long k = 0; k < length; k++) vectors[k * VECTORS] = B_VLOAD(source + first[0] + k * step);
            else if (used == VECTOR)
                for (long k = 0; k < length; k++)
                    for (int j = 0; j < VECTOR; j++) lanes[k * COLUMNS + j] = B_LOAD(source, first[j] + k * step);
            else {  // of the other columns nothing is read, and no sums are stored
                for (long k = 0; k < length; k++) vectors[k * VECTORS] = 0;
                for (long j = 0; j < used; j++)
                    for (long k = 0; k < length; k++) lanes[k * COLUMNS + j] = B_LOAD(source, first[j] + k * step);
            }
        }
        done += length;
        index[3] = 0;
        for (int d = 2; d >= 0; d--) {
            if (++index[d] < g->k_extent[d]) break;
            index[d] = 0;
        }
    }
}

static inline void write_vector(const REALV x, __global void* out, const long at, const contraction* g) {
    __global REAL* part = (__global REAL*)out + at;
    if (!g->parts) OUT_VSTORE(x, (__global OUT_STORAGE*)out + at);
    else if (g->accumulate) GSTORE(x + GLOAD(part), part);
    else GSTORE(x, part);
}

// Writes one row of sums to out; `to` has the offsets of its columns, `runs` tells which vectors are adjacent there.
static inline void write_row(__local const REALV* s, __global void* out, const long base, const long* to, const int runs,
                      const long columns, const contraction* g) {
    if (runs == ALL_RUNS) {
        for (int v = 0; v < VECTORS; v++) write_vector(s[v], out, base + to[v * VECTOR], g);
        return;
    }
    for (int v = 0; v < VECTORS; v++) {
        if (runs >> v & 1) {
            write_vector(s[v], out, base + to[v * VECTOR], g);
            continue;
        }
        __local const REAL* sum = (__local const REAL*)(s + v);
        for (long j = 0; j < min((long)VECTOR, columns - v * VECTOR); j++) {
            const long at = base + to[v * VECTOR + j];
            __global REAL* part = (__global REAL*)out + at;
            if (!g->parts) OUT_STORE(sum[j], (__global OUT_STORAGE*)out, at);
            else *part = g->accumulate ? sum[j] + *part : sum[j];
        }
    }
}

// The vector of an operand's values for columns v * VECTOR ... of a row; `first` is the strip's first column.
static inline REALV operand_vector(__global const STORAGE* e, const long along, const long first, const long* to,
                                   const int runs, const long columns, const int v) {
    if (along == 0) return (REALV)(LOAD(e, 0));
    if (along == 1 && columns == COLUMNS) return VLOAD(e + first + v * VECTOR);
    if (along == 2 && runs >> v & 1) return VLOAD(e + to[v * VECTOR]);
    REAL lanes[VECTOR];
    for (int i = 0; i < VECTOR; i++) {
        const long j = min((long)v * VECTOR + i, columns - 1);
        lanes[i] = LOAD(e, along == 1 ? first + j : to[j]);
    }
    return RLOAD(lanes);
}

// Without the hint Intel's compiler vectorises across work-items, which takes four times as long.
$kernel __attribute__((vec_type_hint(REALV))) contract(read A_TYPE a, read B_STORAGE b, write void out,
        contraction geometry${operand_parameters}) {
    __local REALV strip[DEPTH * VECTORS];
    __local REALV sums[CHUNK * ROWS * VECTORS];
    const contraction g = geometry;
    size_t unit = get_global_id(0);
    const long strip_index = unit % g.strips;
    unit /= g.strips;
    const long chunk = unit % g.chunks;
    unit /= g.chunks;
    const long part = unit % g.splits;
    const long z = unit / g.splits;
    const long outer = z / g.inner_batch, inner = z % g.inner_batch;
    const long tiles = (g.m + ROWS - 1) / ROWS;
    a += g.a_offset + outer * g.a_batch[0] + inner * g.a_batch[1];
    b += g.b_offset + outer * g.b_batch[0] + inner * g.b_batch[1];
    const long out_base = g.out_offset + outer * g.out_batch[0] + inner * g.out_batch[1] + part * g.out_part;

    // The offsets of each column of the strip in B and out; columns past the end repeat the last one and are not written.
    long from[COLUMNS], to[COLUMNS];
    const long columns = min((long)COLUMNS, g.n - strip_index * COLUMNS);
    int from_runs = ALL_RUNS, to_runs = ALL_RUNS;
    const bool one_level = g.n_extent[3] == g.n;  // of a matrix; divisions take as long as a tile of a small one
    long index[4] = {0, 0, 0, strip_index * COLUMNS}, from_next = 0, to_next = 0;
    for (int d = 3; d >= 0; d--) {
        const long all = index[d];
        if (d > 0 && !one_level) {
            index[d - 1] = all / g.n_extent[d];
            index[d] = all - index[d - 1] * g.n_extent[d];
        }
        from_next += index[d] * g.b_n[d];
        to_next += index[d] * g.out_n[d];
    }
    for (long j = 0; j < COLUMNS; j++) {
        from[j] = from_next;
        to[j] = to_next;
        if (j % VECTOR && from[j] != from[j - 1] + 1) from_runs &= ~(1 << j / VECTOR);
        if (j % VECTOR && to[j] != to[j - 1] + 1) to_runs &= ~(1 << j / VECTOR);
        if (j + 1 >= columns) continue;
        from_next += g.b_n[3];
        to_next += g.out_n[3];
        for (int d = 3; d > 0 && ++index[d] == g.n_extent[d]; d--) {
            index[d] = 0;
            from_next += g.b_n[d - 1] - g.n_extent[d] * g.b_n[d];
            to_next += g.out_n[d - 1] - g.n_extent[d] * g.out_n[d];
        }
    }

    const long k_first = part * g.split, k_last = min(g.k, k_first + g.split);
    const long tile_first = chunk * g.chunk, tile_last = min(tiles, tile_first + g.chunk);
    long k_begin = k_first;
    do {
        const long depth = min((long)DEPTH, k_last - k_begin);
        const bool last = k_begin + depth >= k_last;
        const bool whole = last && k_begin == k_first;
        if (depth > 0) fill_strip(b, (__local REAL*)strip, from, from_runs, columns, k_begin, depth, &g);
        for (long tile = tile_first; tile < tile_last; tile++) {
            __local REALV* s = sums + (whole ? 0 : tile - tile_first) * (ROWS * VECTORS);
            const long rows = min((long)ROWS, g.m - tile * ROWS);
            __global const A_TYPE* ap = a + tile * g.a_tile + k_begin * g.a_k;
            EACH_ROW(POINT)
            __local const REALV* bp = strip;
            SUM_PRODUCTS(depth, g.a_k, k_begin == k_first)
            if (last)
                for (long i = 0; i < rows; i++) {
                    const long row = tile * ROWS + i;
                    if (g.finished)
                        for (int v = 0; v < VECTORS; v++)
                            s[i * VECTORS + v] = epilogue(s[i * VECTORS + v]${operand_values});
                    write_row(s + i * VECTORS, out, out_base + row * g.out_row, to, to_runs, columns, &g);
                }
        }
        k_begin += DEPTH;
    } while (k_begin < k_last);
}
