// scan/sum_float32_1
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define WIDTH 1
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// The layout of a scan, (before, extent, after), and the state that is carried along. scan_states.py writes the part `state`: the members
// of a state and the macros that combine states.

typedef struct {
    long before, extent, after, length, chunks, share, reverse;
} walk;

#define SECOND REAL
#define FIRST(p) LOAD(x, p)
#define SECOND_OF(p, i) 0
#define APPEND(a, b, c, d) { \
    const REAL next = c, sum = a + next, part = sum - a; \
    b += d + ((a - (sum - part)) + (next - part)); \
    a = sum; \
}
#define RESULT(a, b) ((b) - (b) == 0 ? (a) + (b) : (a))
#define EMIT(a, b, p) STORE(RESULT(a, b), out, p)

typedef struct {
    REAL first;
    SECOND second;
} state;

// Running combinations along the middle of three dimensions (before, extent, after).
//
// The extent is cut into chunks; `totals` combines each chunk, `fold` combines chunks of totals, `spread` turns each total
// into the combination of those before it, and `scan` walks the chunks again from there (fold and spread are in
// scan_levels.cl). One work-item: `share` chunks times a stretch of WIDTH columns. `reverse` walks from the last position
// to the first.

// A loop of a constant number of columns becomes vectors; the last columns are processed one by one.
#define EACH_CHUNK \
    const long column = get_global_id(0) * WIDTH, columns = min((long)WIDTH, g.after - column); \
    const size_t head = get_global_id(1) * g.share, tail = min((size_t)(g.before * g.chunks), (size_t)(head + g.share)); \
    for (size_t row = head; row < tail; row++)

#define PLACES \
    const size_t plane = row / g.chunks, chunk = row % g.chunks; \
    const long first = chunk * g.length, last = min(g.extent, first + g.length); \
    const long step = g.reverse ? -g.after : g.after; \
    const long origin = plane * g.extent * g.after + column + (g.reverse ? (g.extent - 1) * g.after : 0)

#define TOTALS(N) { \
    REAL a[WIDTH]; \
    SECOND b[WIDTH]; \
    size_t p = origin + first * step; \
    for (int c = 0; c < (N); c++) a[c] = FIRST(p + c), b[c] = SECOND_OF(p + c, first); \
    p += step; \
    for (long i = first + 1; i < last; i++, p += step) \
        for (int c = 0; c < (N); c++) APPEND(a[c], b[c], FIRST(p + c), SECOND_OF(p + c, i)) \
    for (int c = 0; c < (N); c++) to[row * g.after + column + c] = (state){a[c], b[c]}; \
}

__kernel void totals(
    __global const STORAGE *restrict x,
    __global state *restrict to,
    const walk g) {
    EACH_CHUNK {
        PLACES;
        if (columns == WIDTH) TOTALS(WIDTH)
        else TOTALS(columns)
    }
}

#define SCAN(N) { \
    REAL a[WIDTH]; \
    SECOND b[WIDTH]; \
    size_t p = origin + first * step; \
    for (int c = 0; c < (N); c++) { \
        a[c] = FIRST(p + c), b[c] = SECOND_OF(p + c, first); \
        if (chunk) { \
            state s = carries[row * g.after + column + c]; \
            APPEND(s.first, s.second, a[c], b[c]) \
            a[c] = s.first, b[c] = s.second; \
        } \
        EMIT(a[c], b[c], p + c); \
    } \
    p += step; \
    for (long i = first + 1; i < last; i++, p += step) \
        for (int c = 0; c < (N); c++) { \
            APPEND(a[c], b[c], FIRST(p + c), SECOND_OF(p + c, i)) \
            EMIT(a[c], b[c], p + c); \
        } \
}

__kernel void scan(
    __global const STORAGE *restrict x,
    __global const state *restrict carries,
    __global STORAGE *restrict out,
    const walk g) {
    EACH_CHUNK {
        PLACES;
        if (columns == WIDTH) SCAN(WIDTH)
        else SCAN(columns)
    }
}
// The combination of the totals of chunks, for scan.cl.

// Totals of totals; earlier totals are always combined forwards.
__kernel void fold(
    __global const state *restrict from,
    __global state *restrict to,
    const walk g) {
    EACH_CHUNK {
        PLACES;
        for (long c = 0; c < columns; c++) {
            size_t p = origin + first * step + c;
            state s = from[p];
            for (long i = first + 1; i < last; i++) {
                const state behind = from[p += step];
                APPEND(s.first, s.second, behind.first, behind.second)
            }
            to[row * g.after + column + c] = s;
        }
    }
}

// In place: each total becomes the combination of all before it; the first of all stays, and is not read.
__kernel void spread(
    __global state *restrict totals,
    __global const state *restrict carries,
    const walk g) {
    EACH_CHUNK {
        PLACES;
        for (long c = 0; c < columns; c++) {
            size_t p = origin + first * step + c;
            state s = totals[p];
            if (chunk) {
                const state carry = carries[row * g.after + column + c];
                totals[p] = carry;
                state t = carry;
                APPEND(t.first, t.second, s.first, s.second)
                s = t;
            }
            for (long i = first + 1; i < last; i++) {
                p += step;
                const state behind = totals[p];
                totals[p] = s;
                APPEND(s.first, s.second, behind.first, behind.second)
            }
        }
    }
}
