// Radix select, most significant digit first: the first elements of each row in the order of keys, up to a position, without
// sorting it.
//
// Per digit: `digits` counts in tables those elements of a chunk whose higher digits are the ones found, and `choose`, after
// the tables are added up, finds the next. Then `ranks` counts what each chunk has before the last wanted key and of its
// equals, and `collect`, after the ranks are added up, writes the wanted in the order of their positions (`kth`: the position
// of the last of them). On a CPU `few` goes along whole rows, with the first of each so far in order, and `kth_of_row` halves
// the keys of a row of at most LONGEST around a pivot (Hoare's quickselect). `found`, per row: the key so far, and how many are
// still to be found among the keys that begin with it.

${keys}

#define DIGITS 256

typedef struct {
    long rows, extent, length, chunks, share, shift, wanted;
    ulong flip;
} selecting;

#define EACH_CHUNK(t) \
    const size_t head = get_global_id(0) * g.share, tail = min((size_t)(g.rows * g.chunks), (size_t)(head + g.share)); \
    for (size_t t = head; t < tail; t++)

#define PLACES(t) \
    const size_t row = (t) / g.chunks, first = (t) % g.chunks * g.length; \
    const size_t last = min((size_t)g.extent, (size_t)(first + g.length))

#define KEY_AT(i) ((key_of(LOAD(x, row * g.extent + (i))) ^ g.flip) & KEY_MASK)
// In two steps, as a shift by 64 is none.
#define BEGINS_WITH(key, prefix) (((key) ^ (prefix)) >> g.shift >> 8 == 0)

$kernel digits(read STORAGE x, read long found, write int counts, selecting g) {
#ifdef ALONE
    EACH_CHUNK(t) {
        PLACES(t);
        __global int* table = counts + t * DIGITS;
        for (int d = 0; d < DIGITS; d++) table[d] = 0;
        const ulong prefix = found[2 * row];
        for (size_t i = first; i < last; i++) {
            const ulong key = KEY_AT(i);
            if (BEGINS_WITH(key, prefix)) table[key >> g.shift & (DIGITS - 1)]++;
        }
    }
#else
    __local int table[DIGITS];
    const size_t t = get_group_id(0), item = get_local_id(0), group = get_local_size(0);
    PLACES(t);
    for (size_t d = item; d < DIGITS; d += group) table[d] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    const ulong prefix = found[2 * row];
    for (size_t i = first + item; i < last; i += group) {
        const ulong key = KEY_AT(i);
        if (BEGINS_WITH(key, prefix)) atomic_inc(table + (key >> g.shift & (DIGITS - 1)));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t d = item; d < DIGITS; d += group) counts[t * DIGITS + d] = table[d];
#endif
}

// One work-item: a row. `begin` goes before the first digit.
$kernel choose(read long totals, write long found, selecting g) {
    const size_t row = get_global_id(0);
    long wanted = found[2 * row + 1];
    int digit = 0;
    for (; digit < DIGITS - 1 && totals[row * DIGITS + digit] < wanted; digit++) wanted -= totals[row * DIGITS + digit];
    found[2 * row] |= (long)((ulong)digit << g.shift);
    found[2 * row + 1] = wanted;
}

$kernel begin(read long positions, write long found, selecting g) {
    const size_t row = get_global_id(0);
    found[2 * row] = 0;
    found[2 * row + 1] = positions[row] + 1;
}

$kernel ranks(read STORAGE x, read long found, write long counts, selecting g) {
    EACH_CHUNK(t) {
        PLACES(t);
        const ulong last_key = found[2 * row];
        long before = 0, equal = 0;
        for (size_t i = first; i < last; i++) {
            const ulong key = KEY_AT(i);
            before += key < last_key;
            equal += key == last_key;
        }
        counts[2 * t] = before;
        counts[2 * t + 1] = equal;
    }
}

#define WALK \
    EACH_CHUNK(t) { \
        PLACES(t); \
        const ulong last_key = found[2 * row]; \
        const long wanted = found[2 * row + 1]; \
        long before = t % g.chunks ? sums[2 * t - 2] : 0, equal = t % g.chunks ? sums[2 * t - 1] : 0; \
        for (size_t i = first; i < last; i++) { \
            const ulong key = KEY_AT(i);

$kernel collect(read STORAGE x, read long found, read long sums, write STORAGE values, write long indices,
        selecting g) {
    WALK
            if (key < last_key || (key == last_key && equal < wanted)) {
                const size_t to = row * g.wanted + before + min(equal, wanted);
                STORE(LOAD(x, row * g.extent + i), values, to);
                indices[to] = i;
            }
            before += key < last_key;
            equal += key == last_key;
        }
    }
}

$kernel kth(read STORAGE x, read long found, read long sums, write long indices, selecting g) {
    WALK
            equal += key == last_key;
            if (key == last_key && equal == wanted) indices[row] = i;
        }
        (void)before;
    }
}

$if ALONE
$kernel few(read STORAGE x, write STORAGE values, write long indices, selecting g) {
    const size_t head = get_global_id(0) * g.share, tail = min((size_t)g.rows, (size_t)(head + g.share));
    for (size_t row = head; row < tail; row++) {
        ulong keys[FEW];
        long at[FEW], count = 0;
        for (long i = 0; i < g.extent; i++) {
            const ulong key = KEY_AT(i);
            if (count == g.wanted && key >= keys[count - 1]) continue;
            long p = count < g.wanted ? count++ : count - 1;
            for (; p > 0 && keys[p - 1] > key; p--) {
                keys[p] = keys[p - 1];
                at[p] = at[p - 1];
            }
            keys[p] = key;
            at[p] = i;
        }
        for (long p = 0; p < count; p++) {
            STORE(LOAD(x, row * g.extent + at[p]), values, row * g.wanted + p);
            indices[row * g.wanted + p] = at[p];
        }
    }
}

$kernel kth_of_row(read STORAGE x, read long positions, write long indices, selecting g) {
    const size_t head = get_global_id(0) * g.share, tail = min((size_t)g.rows, (size_t)(head + g.share));
    for (size_t row = head; row < tail; row++) {
        ulong keys[LONGEST];
        for (long i = 0; i < g.extent; i++) keys[i] = KEY_AT(i);
        const long k = clamp(positions[row], 0L, g.extent - 1);
        long low = 0, high = g.extent - 1;
        while (low < high) {
            const ulong a = keys[low], b = keys[(low + high) / 2], c = keys[high];
            const ulong pivot = max(min(a, b), min(max(a, b), c));
            long i = low, j = high;
            while (i <= j) {
                while (keys[i] < pivot) i++;
                while (keys[j] > pivot) j--;
                if (i > j) break;
                const ulong kept = keys[i];
                keys[i++] = keys[j];
                keys[j--] = kept;
            }
            if (k <= j) high = j;
            else if (k >= i) low = i;
            else break;
        }
        // Of equals the one that a stable sort would put there.
        const ulong key = keys[k];
        long left = k, i = 0;
        for (long j = 0; j < g.extent; j++) left -= keys[j] < key;
        for (;; i++)
            if (KEY_AT(i) == key && left-- == 0) break;
        indices[row] = i;
    }
}
$end
