// Binary search in sorted rows, counts between sorted edges, and elements put to positions that are all different.
// One work-item: `share` elements; `rows` rows of `extent` (the sequence, the edges, the result) and of `width` (x).

${keys}

typedef struct {
    long rows, extent, width, share, right, copies;
} searching;

#define EACH_ELEMENT \
    const size_t head = get_global_id(0) * g.share, tail = min((size_t)(g.rows * g.width), (size_t)(head + g.share)); \
    for (size_t p = head; p < tail; p++)

// The first position with a key not below `key` (`right`: is above it).
static inline long bound(__global const STORAGE* restrict sorted, const long extent, const ulong key, const long right) {
    long low = 0, high = extent;
    while (low < high) {
        const long middle = (low + high) / 2;
        const ulong found = key_of(LOAD(sorted, middle));
        if (found < key || (right && found == key)) low = middle + 1;
        else high = middle;
    }
    return low;
}

$kernel search(read STORAGE sorted, read STORAGE x, write long out, searching g, long shared) {
    EACH_ELEMENT {
        const size_t row = shared ? 0 : p / g.width;
        out[p] = bound(sorted + row * g.extent, g.extent, key_of(LOAD(x, p)), g.right);
    }
}

// Into `copies` tables of counts, which are added up later; the last edge belongs to the last bin.
$kernel count(read STORAGE x, read STORAGE edges, write int counts, searching g) {
    const long bins = g.extent - 1;
    const ulong last = key_of(LOAD(edges, bins));
    __global int* table = counts + get_global_id(0) % g.copies * bins;
    EACH_ELEMENT {
        const ulong key = key_of(LOAD(x, p));
        const long bin = key == last ? bins : bound(edges, g.extent, key, 1);
        if (bin > 0 && key <= last) {
#ifdef ALONE
            table[bin - 1]++;
#else
            atomic_inc(table + bin - 1);
#endif
        }
    }
}

$kernel put(read STORAGE x, read long indices, write STORAGE out, searching g) {
    EACH_ELEMENT {
        const long to = indices[p];
        if (to >= 0 && to < g.extent) STORE(LOAD(x, p), out, p / g.width * g.extent + to);
    }
}
