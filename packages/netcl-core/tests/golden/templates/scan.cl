// scan/sum_float32_1
#pragma OPENCL FP_CONTRACT OFF
#define DTYPE_FLOAT32 1
#define KIND_SUM 1
#define WIDTH 1
#define LOOPS __attribute__((vec_type_hint(float16)))
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STORAGE float
#define REAL float
#define LOAD(p, i) ((p)[i])
#define STORE(x, p, i) ((p)[i] = (x))
// Running combinations along the middle of three dimensions (before, extent, after).
//
// The extent is cut into chunks; `totals` combines each chunk, `fold` combines chunks of totals, `spread` turns totals into
// what lies before each of them, and `scan` walks the chunks again from there. One work-item: `share` chunks times a
// stretch of WIDTH columns. `reverse` walks from the last position to the first.
//
// A state is what a stretch amounts to: a sum or product with what its roundings lost (so that only the last one counts),
// an extremum with its place, the shift and the sum of a log-sum-exp, or the factor and the offset of y = a y + b.

typedef struct {
    long before, extent, after, length, chunks, share, reverse;
} walk;

#if defined(KIND_MAX) || defined(KIND_MIN)
#define SECOND long
#else
#define SECOND REAL
#endif
typedef struct {
    REAL first;
    SECOND second;
} state;

// The state of the element at position p, the i-th on the way.
#ifdef KIND_LINEAR
#define FIRST(p) LOAD(factors, p)
#define SECOND_OF(p, i) LOAD(x, p)
#else
#define FIRST(p) LOAD(x, p)
#if defined(KIND_MAX) || defined(KIND_MIN)
#define SECOND_OF(p, i) (i)
#elif defined(KIND_LOGSUMEXP)
#define SECOND_OF(p, i) 1
#else
#define SECOND_OF(p, i) 0
#endif
#endif

// APPEND(a, b, c, d): the state (a, b) becomes that of its stretch and of the stretch (c, d) behind it. In scalars, as
// compilers keep a struct in memory from one step to the next.
#if defined(KIND_MAX) || defined(KIND_MIN)
// The last of equals; a NaN stays, and its place is that of the last NaN.
#ifdef KIND_MAX
#define LATER(a, c) ((c) != (c) || ((a) == (a) && (c) >= (a)))
#else
#define LATER(a, c) ((c) != (c) || ((a) == (a) && (c) <= (a)))
#endif
#define APPEND(a, b, c, d) { \
    const REAL later_value = c; \
    const int later = LATER(a, later_value); \
    a = later ? later_value : a; \
    b = later ? d : b; \
}
#elif defined(EXACT) && defined(KIND_SUM)
#define APPEND(a, b, c, d) a += c;
#elif defined(EXACT)
#define APPEND(a, b, c, d) a *= c;
#elif defined(KIND_SUM)
// Knuth's TwoSum.
#define APPEND(a, b, c, d) { \
    const REAL next = c, sum = a + next, part = sum - a; \
    b += d + ((a - (sum - part)) + (next - part)); \
    a = sum; \
}
#elif defined(KIND_PROD)
#define APPEND(a, b, c, d) { \
    const REAL next = c, product = a * next; \
    b = b * next + (a * d + fma(a, next, -product)); \
    a = product; \
}
#elif defined(KIND_LOGSUMEXP)
// Equal shifts are no difference of infinities.
#define APPEND(a, b, c, d) { \
    const REAL next = c, shift = a > next || a != a ? a : next; \
    b = b * (a == shift ? (REAL)1 : exp(a - shift)) + d * (next == shift ? (REAL)1 : exp(next - shift)); \
    a = shift; \
}
#else
// Nothing times a factor that has overflown is nothing.
#define APPEND(a, b, c, d) { \
    const REAL next = c; \
    b = (b == 0 ? (REAL)0 : next * b) + d; \
    a *= next; \
}
#endif

#if defined(KIND_LOGSUMEXP)
#define RESULT(a, b) ((a) + log(b))
#elif defined(KIND_LINEAR)
#define RESULT(a, b) (b)
#elif defined(EXACT) || defined(KIND_MAX) || defined(KIND_MIN)
#define RESULT(a, b) (a)
#else
// Where the value is infinite or NaN, what it lost is NaN.
#define RESULT(a, b) ((b) - (b) == 0 ? (a) + (b) : (a))
#endif

#ifdef KIND_LINEAR
#define OPERANDS __global const STORAGE* restrict x, __global const STORAGE* restrict factors
#else
#define OPERANDS __global const STORAGE* restrict x
#endif

// A loop of a constant number of columns becomes vectors; the last columns are walked one by one.
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

__kernel void totals(OPERANDS, __global state* restrict to, const walk g) {
    EACH_CHUNK {
        PLACES;
        if (columns == WIDTH) TOTALS(WIDTH)
        else TOTALS(columns)
    }
}

#if defined(KIND_MAX) || defined(KIND_MIN)
#define EMIT(a, b, p) STORE(RESULT(a, b), out, p), places[p] = b
#else
#define EMIT(a, b, p) STORE(RESULT(a, b), out, p)
#endif

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

__kernel void scan(OPERANDS, __global const state* restrict carries, __global STORAGE* restrict out,
#if defined(KIND_MAX) || defined(KIND_MIN)
                   __global long* restrict places,
#endif
                   const walk g) {
    EACH_CHUNK {
        PLACES;
        if (columns == WIDTH) SCAN(WIDTH)
        else SCAN(columns)
    }
}

#ifdef STAGED
// The same for long rows of a device whose neighbouring work-items should read neighbours: a group of GROUP work-items
// carries chunks of STRETCH through local memory, one place left out after each, so that their banks differ.
#define STAGE(i) ((i) + (i) / STRETCH)

#define STAGES \
    __local REAL shared[GROUP * (STRETCH + 1)]; \
    const size_t groups = (g.chunks + GROUP - 1) / GROUP, item = get_local_id(0); \
    const size_t plane = get_group_id(0) / groups, begin = get_group_id(0) % groups * GROUP * STRETCH; \
    const size_t count = min((size_t)(GROUP * STRETCH), (size_t)(g.extent - begin)); \
    const size_t row = plane * g.chunks + begin / STRETCH + item; \
    const size_t first = item * STRETCH, last = min(count, first + STRETCH); \
    const long step = g.reverse ? -1 : 1, origin = plane * g.extent + (g.reverse ? g.extent - 1 - (long)begin : (long)begin); \
    for (size_t i = item; i < count; i += GROUP) shared[STAGE(i)] = LOAD(x, (size_t)(origin + (long)i * step)); \
    barrier(CLK_LOCAL_MEM_FENCE)

__kernel void staged_totals(OPERANDS, __global state* restrict to, const walk g) {
    STAGES;
    if (first >= count) return;
    REAL a = shared[STAGE(first)];
    SECOND b = SECOND_OF(0, (long)(begin + first));
    for (size_t i = first + 1; i < last; i++) APPEND(a, b, shared[STAGE(i)], SECOND_OF(0, (long)(begin + i)))
    to[row] = (state){a, b};
}

__kernel void staged_scan(OPERANDS, __global const state* restrict carries, __global STORAGE* restrict out,
#if defined(KIND_MAX) || defined(KIND_MIN)
                          __global long* restrict places,
#endif
                          const walk g) {
    STAGES;
    if (first < count) {
        state s = {shared[STAGE(first)], SECOND_OF(0, (long)(begin + first))};
        if (begin + first) {
            state t = carries[row];
            APPEND(t.first, t.second, s.first, s.second)
            s = t;
        }
        REAL a = s.first;
        SECOND b = s.second;
        for (size_t i = first;;) {
            shared[STAGE(i)] = RESULT(a, b);
#if defined(KIND_MAX) || defined(KIND_MIN)
            places[origin + (long)i * step] = b;
#endif
            if (++i >= last) break;
            APPEND(a, b, shared[STAGE(i)], SECOND_OF(0, (long)(begin + i)))
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t i = item; i < count; i += GROUP) STORE(shared[STAGE(i)], out, (size_t)(origin + (long)i * step));
}
#endif

// Totals of totals; what is before is always walked forwards.
__kernel void fold(__global const state* restrict from, __global state* restrict to, const walk g) {
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

// In place: each total becomes the combination of all before it; the first of all stays, and nobody reads it.
__kernel void spread(__global state* restrict totals, __global const state* restrict carries, const walk g) {
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
