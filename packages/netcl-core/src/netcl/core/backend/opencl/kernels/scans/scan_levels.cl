// The combination of the totals of chunks, for scan.cl.

// Totals of totals; earlier totals are always combined forwards.
$kernel fold(read state from, write state to, walk g) {
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
$kernel spread(write state totals, read state carries, walk g) {
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
