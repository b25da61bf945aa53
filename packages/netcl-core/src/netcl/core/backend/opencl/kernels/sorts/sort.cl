// Stable merge sort of the rows of a matrix, and the use of sorted rows.
//
// Elements (sort_elements.cl) have a key, in an order that `flip` reverses, and the position that it came from, so that one stream is
// merged, and of equals the earlier comes first. `tiles` sorts stretches of a row, each `merge` joins
// neighbouring runs of `width` (its work-items find their share by a search along the diagonal: Odeh, Green, Mwassi, Shmueli
// and Birk: Merge Path. IPDPSW 2012), `unpack` writes values and positions.
//
// On a CPU a work-item sorts and merges by itself; elsewhere a group does, through local memory.

#define EIGHT 8

typedef struct {
    long rows, extent, tile, tiles, width, share;
    ulong flip;
} sorting;

// The number of elements from the first run among the first `diagonal` merged ones; of equal elements, the first run's come
// first.
#define DEFINE_PATH(SPACE, NAME) \
    static inline size_t NAME(SPACE const element* a, const size_t m, SPACE const element* b, const size_t n, \
                              const size_t diagonal) { \
        size_t low = diagonal > n ? diagonal - n : 0, high = min(diagonal, m); \
        while (low < high) { \
            const size_t middle = (low + high) / 2; \
            if (BEFORE(b[diagonal - 1 - middle], a[middle])) high = middle; \
            else low = middle + 1; \
        } \
        return low; \
    }
DEFINE_PATH(__global, path)

#define EXCHANGE(i) { \
    const element p = e[i], q = e[i + 1]; \
    const int less = BEFORE(q, p); \
    e[i] = less ? q : p; \
    e[i + 1] = less ? p : q; \
}
// Odd-even transposition: neighbours only, so that equals keep their order.
static inline void sort_eight(element e[EIGHT]) {
    for (int round = 0; round < EIGHT / 2; round++) {
        EXCHANGE(0) EXCHANGE(2) EXCHANGE(4) EXCHANGE(6)
        EXCHANGE(1) EXCHANGE(3) EXCHANGE(5)
    }
}

$if ALONE
// Outputs [p, end) of the runs that begin at `start`.
static inline void merge_runs(__global const element* restrict from, __global element* restrict to, const size_t start,
                              const size_t width, const size_t extent, size_t p, const size_t end) {
    const size_t middle = min(start + width, extent), stop = min(start + 2 * width, extent);
    size_t i = start + path(from + start, middle - start, from + middle, stop - middle, p - start);
    size_t j = middle + (p - start) - (i - start);
    for (; p < end && i < middle && j < stop; p++) {
        const element a = from[i], b = from[j];
        const int second = BEFORE(b, a);
        to[p] = second ? b : a;
        i += !second;
        j += second;
    }
    for (; p < end && i < middle; p++) to[p] = from[i++];
    for (; p < end; p++) to[p] = from[j++];
}

// Sorts tiles of a row into `one` or `two`: into `two` if the tile takes an odd number of merges.
$kernel tiles(read STORAGE x, write element one, write element two, sorting g) {
    const size_t head = get_global_id(0) * g.share, tail = min((size_t)(g.rows * g.tiles), (size_t)(head + g.share));
    for (size_t t = head; t < tail; t++) {
        const size_t row = t / g.tiles * g.extent, start = t % g.tiles * g.tile;
        const size_t stop = min((size_t)g.extent, (size_t)(start + g.tile));
        for (size_t i = start; i < stop; i += EIGHT) {
            element e[EIGHT];
            const size_t count = min((size_t)EIGHT, (size_t)(stop - i));
            for (size_t k = 0; k < EIGHT; k++)
                e[k] = k < count ? ELEMENT((key_of(LOAD(x, row + i + k)) ^ g.flip) & KEY_MASK, i + k) : LAST;
            sort_eight(e);
            for (size_t k = 0; k < count; k++) one[row + i + k] = e[k];
        }
        __global element* from = one + row + start;
        __global element* to = two + row + start;
        for (size_t width = EIGHT; width < (size_t)g.width; width *= 2) {
            for (size_t s = 0; s < stop - start; s += 2 * width)
                merge_runs(from, to, s, width, stop - start, s, min(s + 2 * width, stop - start));
            __global element* other = from;
            from = to;
            to = other;
        }
    }
}

$kernel merge(read element from, write element to, sorting g) {
    const size_t head = get_global_id(0) * g.share, tail = min((size_t)(g.rows * g.tiles), (size_t)(head + g.share));
    for (size_t t = head; t < tail; t++) {
        const size_t row = t / g.tiles * g.extent;
        const size_t end = min((size_t)g.extent, (size_t)((t % g.tiles + 1) * g.tile));
        for (size_t p = t % g.tiles * g.tile; p < end;) {
            const size_t start = p / (2 * g.width) * (2 * g.width), upto = min(end, (size_t)(start + 2 * g.width));
            merge_runs(from + row, to + row, start, g.width, g.extent, p, upto);
            p = upto;
        }
    }
}
$else
DEFINE_PATH(__local, local_path)

// Each work-item: eight outputs of two runs in local memory, into e.
static inline void merge_eight(__local const element* a, const size_t m, __local const element* b, const size_t n,
                               const size_t diagonal, element e[EIGHT]) {
    size_t i = local_path(a, m, b, n, diagonal), j = diagonal - i;
    for (int k = 0; k < EIGHT; k++) {
        const int second = i >= m || (j < n && BEFORE(b[j], a[i]));
        e[k] = second ? (j < n ? b[j] : LAST) : a[i];
        i += !second;
        j += second;
    }
}

// Short rows share a group: element i of it is at `index` of a row, if `inside`.
#define TILE_OF(i) \
    const size_t t = before + (i) / g.tile, row = t / g.tiles * g.extent; \
    const size_t index = t % g.tiles * g.tile + (i) % g.tile; \
    const int inside = t < g.rows * g.tiles && index < g.extent

$kernel tiles(read STORAGE x, write element one, write element two, sorting g) {
    __local element shared[TILE];
    const size_t item = get_local_id(0), group = get_local_size(0), all = group * EIGHT;
    const size_t before = get_group_id(0) * (all / g.tile);  // tiles of the groups before this one
    element e[EIGHT];
    for (size_t i = item; i < all; i += group) {
        TILE_OF(i);
        shared[i] = inside ? ELEMENT((key_of(LOAD(x, row + index)) ^ g.flip) & KEY_MASK, index) : LAST;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < EIGHT; k++) e[k] = shared[item * EIGHT + k];
    sort_eight(e);
    for (size_t width = EIGHT; width < g.tile; width *= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < EIGHT; k++) shared[item * EIGHT + k] = e[k];
        barrier(CLK_LOCAL_MEM_FENCE);
        const size_t first = item * EIGHT / (2 * width) * (2 * width);
        merge_eight(shared + first, width, shared + first + width, width, item * EIGHT - first, e);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < EIGHT; k++) shared[item * EIGHT + k] = e[k];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t i = item; i < all; i += group) {
        TILE_OF(i);
        if (inside) one[row + index] = shared[i];
    }
}

$kernel merge(read element from, write element to, sorting g) {
    __local element shared[TILE];
    const size_t item = get_local_id(0), group = get_local_size(0), t = get_group_id(0);
    const size_t row = t / g.tiles * g.extent, p = t % g.tiles * g.tile, end = min((size_t)g.extent, (size_t)(p + g.tile));
    // A tile is within one pair of runs, as widths are multiples of it.
    const size_t start = p / (2 * g.width) * (2 * g.width), middle = min((size_t)(start + g.width), (size_t)g.extent);
    const size_t stop = min((size_t)(start + 2 * g.width), (size_t)g.extent);
    __global const element* a = from + row + start;
    __global const element* b = from + row + middle;
    const size_t i = path(a, middle - start, b, stop - middle, p - start), m = path(a, middle - start, b, stop - middle, end - start) - i;
    const size_t j = p - start - i, n = end - p - m;
    for (size_t k = item; k < m; k += group) shared[k] = a[i + k];
    for (size_t k = item; k < n; k += group) shared[m + k] = b[j + k];
    barrier(CLK_LOCAL_MEM_FENCE);
    element e[EIGHT];
    merge_eight(shared, m, shared + m, n, min(item * EIGHT, m + n), e);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < EIGHT; k++) shared[item * EIGHT + k] = e[k];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t k = item; k < m + n; k += group) to[row + p + k] = shared[k];
}
$end

// The first `tile` of each sorted row.
$kernel unpack(read STORAGE x, read element from, write STORAGE values, write long indices, sorting g) {
    const size_t head = get_global_id(0) * g.share, tail = min((size_t)(g.rows * g.tile), (size_t)(head + g.share));
    size_t row = head / g.tile, column = head % g.tile;
    for (size_t p = head; p < tail; p++) {
        const element e = from[row * g.extent + column];
        const ulong key = (KEY(e) ^ g.flip) & KEY_MASK;
        indices[p] = INDEX_OF(e);
        if (TELLS(key)) STORE(value_of(key), values, p);
        else STORE(LOAD(x, row * g.extent + INDEX_OF(e)), values, p);
        if (++column == g.tile) column = 0, row++;
    }
}
