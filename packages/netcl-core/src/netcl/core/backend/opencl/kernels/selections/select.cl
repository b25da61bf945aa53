// Radix select, most significant digit first: the first elements of each row in the order of keys, up to a position, without
// sorting it.
//
// Per digit: `digits` counts in tables the elements of a chunk with the higher digits chosen so far, and `choose`, after
// the tables are added up, finds the next. Then `ranks` counts what each chunk has before the last wanted key and of its
// equals, and `collect`, after the ranks are added up, writes the wanted in the order of their positions (`kth`: the position
// of the last of them). On a CPU `few` goes along whole rows, with the first of each so far in order, and `kth_of_row` halves
// the keys of a row of at most LONGEST around a pivot (Hoare's quickselect). `found`, per row: the key so far, and how many are
// still to be found among the keys that begin with it.

typedef struct {
    long rows, extent, length, chunks, share, shift, wanted;
    ulong flip;
} selecting;

#define POSITION size_t
#define EACH_CHUNK(t) \
    const size_t head = get_global_id(0) * g.share, tail = min((size_t)(g.rows * g.chunks), (size_t)(head + g.share)); \
    for (size_t t = head; t < tail; t++)

#define PLACES(t) \
    const size_t number = (t) / g.chunks, row = number * g.extent, first = (t) % g.chunks * g.length; \
    const size_t last = min((size_t)g.extent, (size_t)(first + g.length))

$if ALONE
$kernel digits(read STORAGE x, read long found, write int counts, selecting g) {
    EACH_CHUNK(t) {
        PLACES(t);
        __global int* table = counts + t * DIGITS;
        const ulong prefix = found[2 * number];
        COUNT(table, DIGITS, first, last, BEGINS_WITH(key, prefix, g.shift), key >> g.shift)
    }
}
$else
$kernel [GROUP, 1, 1] digits(read STORAGE x, read long found, write int counts, selecting g) {
    __local int table[DIGITS];
    const size_t t = get_group_id(0), item = get_local_id(0);
    PLACES(t);
    const ulong prefix = found[2 * number];
    COUNT(table, DIGITS, first, last, BEGINS_WITH(key, prefix, g.shift), key >> g.shift)
    for (size_t d = item; d < DIGITS; d += GROUP) counts[t * DIGITS + d] = table[d];
}
$end

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
        const ulong last_key = found[2 * number];
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
        const ulong last_key = found[2 * number]; \
        const long wanted = found[2 * number + 1]; \
        long before = t % g.chunks ? sums[2 * t - 2] : 0, equal = t % g.chunks ? sums[2 * t - 1] : 0; \
        for (size_t i = first; i < last; i++) { \
            const ulong key = KEY_AT(i);

$kernel collect(read STORAGE x, read long found, read long sums, write STORAGE values, write long indices,
        selecting g) {
    WALK
            if (key < last_key || (key == last_key && equal < wanted)) {
                const size_t to = number * g.wanted + before + min(equal, wanted);
                STORE(LOAD(x, row + i), values, to);
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
            if (key == last_key && equal == wanted) indices[number] = i;
        }
        (void)before;
    }
}

$if ALONE
$kernel few(read STORAGE x, write STORAGE values, write long indices, selecting g) {
    const size_t head = get_global_id(0) * g.share, tail = min((size_t)g.rows, (size_t)(head + g.share));
    for (size_t number = head; number < tail; number++) {
        const size_t row = number * g.extent;
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
            STORE(LOAD(x, row + at[p]), values, number * g.wanted + p);
            indices[number * g.wanted + p] = at[p];
        }
    }
}

$kernel kth_of_row(read STORAGE x, read long positions, write long indices, selecting g) {
    const size_t head = get_global_id(0) * g.share, tail = min((size_t)g.rows, (size_t)(head + g.share));
    for (size_t number = head; number < tail; number++) {
        const size_t row = number * g.extent;
        ulong keys[LONGEST];
        for (long i = 0; i < g.extent; i++) keys[i] = KEY_AT(i);
        const long k = clamp(positions[number], 0L, g.extent - 1);
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
        indices[number] = i;
    }
}
$end
