// The gradient of max pooling on CPUs for windows that share no element: each gradient is written to its maximum.

// A gradient added to a zero, as where windows overlap: of -0 that is 0.
#ifdef DTYPE_FLOAT32
#define SUM_OF_ONE(x) ((x) + 0.0f)
#else
#define SUM_OF_ONE(x) ((x) == 0x8000 ? 0 : (x))
#endif

$kernel LOOPS max_gradient(read STORAGE grad, read int indices, write STORAGE out, window g) {
    const long rows = g.extent[0] * g.extent[1], line = g.extent[2], windows = g.out[0] * g.out[1] * g.out[2];
    const long begin = get_global_id(0) * g.block, end = min(g.rows, begin + g.block);
    long at = begin * line;
    for (; at + VECTOR <= end * line; at += VECTOR) VSTORE((REALV)(0), out + at);
    for (; at < end * line; at++) STORE((REAL)0, out, at);
    for (long plane = begin / rows; plane * rows < end; plane++) {
        // The rows of this plane, and the rows of windows that reach them.
        const long top = max(begin - plane * rows, 0L), bottom = min(end - plane * rows, rows);
        long low = 0, high = g.out[0] * g.out[1];
        if (g.extent[0] == 1 && g.out[0] == 1) {
            low = windows_holding(top + g.low[1], 1, &g).first;
            high = windows_holding(bottom - 1 + g.low[1], 1, &g).last;
        }
        for (long i = plane * windows + low * g.out[2]; i < plane * windows + high * g.out[2]; i++) {
            const long position = indices[i];
            if (position >= top * line && position < bottom * line)
                RAW_STORE(SUM_OF_ONE(RAW_LOAD(grad, i)), out, plane * rows * line + position);
        }
    }
}
