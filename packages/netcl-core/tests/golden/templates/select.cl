// select/float32_cpu
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define ALONE 1
#define FEW 16
#define LONGEST 2048
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// The tile algorithm of radix select, the most significant digit first: COUNT counts a digit of the keys of a tile, elements first ..
// last - 1 of a row, that are TAKEN. What was counted goes on in one of two ways. A work-group that has a whole row chooses the next
// digit in local memory (select_rows.cl); the tables of a row's many tiles are added up by launches (select.cl).

#define SIGN 0x80000000U
#define KEY_MASK 0xffffffffUL
typedef uint real_bits;
#define TELLS(key) ((key) != SIGN && (key) != KEY_MASK)
static inline ulong key_of(const REAL v) {
    const real_bits bits = as_uint(v);
    if ((bits & ~SIGN) > 0x7f800000U) return KEY_MASK;
    return bits << 1 == 0 ? SIGN : (real_bits)(bits & SIGN ? ~bits : bits | SIGN);
}
static inline REAL value_of(const ulong key) {
    const real_bits bits = (real_bits)key;
    return as_float(bits & SIGN ? bits & ~SIGN : ~bits);
}
static inline int differ(const REAL v, const REAL w) {
    const real_bits one = as_uint(v), other = as_uint(w);
    return ((one != other) & ((one | other) << 1 != 0)) | ((one & ~SIGN) > 0x7f800000U);
}
#define DIFFER(v, w) differ(v, w)

#define DIGITS 256  // of eight bits
#define KEY_AT(i) ((key_of(LOAD(x, row + (i))) ^ g.flip) & KEY_MASK)
#define BEGINS_WITH(number, prefix, shift) (((number) ^ (prefix)) >> (shift) >> 8 == 0)  // in two steps, as a shift by 64 is none

#define COUNT(table, size, first, last, TAKEN, DIGIT) { \
        for (int d = 0; d < (size); d++) table[d] = 0; \
        for (POSITION i = first; i < (last); i++) { \
            const ulong key = KEY_AT(i); \
            if (TAKEN) table[(DIGIT) & (DIGITS - 1)]++; \
        } \
    }
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

__kernel void digits(
    __global const STORAGE *restrict x,
    __global const long *restrict found,
    __global int *restrict counts,
    const selecting g) {
    EACH_CHUNK(t) {
        PLACES(t);
        __global int* table = counts + t * DIGITS;
        const ulong prefix = found[2 * number];
        COUNT(table, DIGITS, first, last, BEGINS_WITH(key, prefix, g.shift), key >> g.shift)
    }
}

// One work-item: a row. `begin` goes before the first digit.
__kernel void choose(
    __global const long *restrict totals,
    __global long *restrict found,
    const selecting g) {
    const size_t row = get_global_id(0);
    long wanted = found[2 * row + 1];
    int digit = 0;
    for (; digit < DIGITS - 1 && totals[row * DIGITS + digit] < wanted; digit++) wanted -= totals[row * DIGITS + digit];
    found[2 * row] |= (long)((ulong)digit << g.shift);
    found[2 * row + 1] = wanted;
}

__kernel void begin(
    __global const long *restrict positions,
    __global long *restrict found,
    const selecting g) {
    const size_t row = get_global_id(0);
    found[2 * row] = 0;
    found[2 * row + 1] = positions[row] + 1;
}

__kernel void ranks(
    __global const STORAGE *restrict x,
    __global const long *restrict found,
    __global long *restrict counts,
    const selecting g) {
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

__kernel void collect(
    __global const STORAGE *restrict x,
    __global const long *restrict found,
    __global const long *restrict sums,
    __global STORAGE *restrict values,
    __global long *restrict indices,
    const selecting g) {
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

__kernel void kth(
    __global const STORAGE *restrict x,
    __global const long *restrict found,
    __global const long *restrict sums,
    __global long *restrict indices,
    const selecting g) {
    WALK
            equal += key == last_key;
            if (key == last_key && equal == wanted) indices[number] = i;
        }
        (void)before;
    }
}

__kernel void few(
    __global const STORAGE *restrict x,
    __global STORAGE *restrict values,
    __global long *restrict indices,
    const selecting g) {
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

__kernel void kth_of_row(
    __global const STORAGE *restrict x,
    __global const long *restrict positions,
    __global long *restrict indices,
    const selecting g) {
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
