// The gradient of max pooling, from the positions of the maxima.
$kernel LOOPS max_gradient(read STORAGE grad, read int indices, write STORAGE out, window GIVEN) {
    GEOMETRY
    EACH_ROW(g.extent[2]) {
        ROW_PLACE(g.extent);
        const span oz = windows_holding(pz + g.low[0], 0, &g), oy = windows_holding(py + g.low[1], 1, &g);
        const place windows = plane * g.out[0] * g.out[1] * g.out[2];
        EACH_PIECE {
            PIECE_WINDOWS;
            const place start = (pz * g.extent[1] + py) * g.extent[2] + piece;
            for (place z = oz.first; z < oz.last; z++)
                for (place y = oy.first; y < oy.last; y++) {
                    const place line = windows + (z * g.out[1] + y) * g.out[2];
                    for (place i = first; i < last; i++) {
                        const place position = (place)indices[line + i] - start;
                        if (position >= 0 && position < width) sums[position] += LOAD(grad, line + i);
                    }
                }
            for (place i = 0; i < width; i++) STORE(sums[i], out, row * g.extent[2] + piece + i);
        }
    }
}
