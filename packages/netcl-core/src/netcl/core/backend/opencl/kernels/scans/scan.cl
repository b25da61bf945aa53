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

$kernel totals(${operands}, write state to, walk g) {
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

$kernel scan(${operands}, read state carries, write STORAGE out, ${indices}walk g) {
    EACH_CHUNK {
        PLACES;
        if (columns == WIDTH) SCAN(WIDTH)
        else SCAN(columns)
    }
}
