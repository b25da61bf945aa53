// KERNEL: put and scatter without `winner`, and with ADDED the gradients of take and gather: a work-item iterates over all indices in
// order and writes only the elements of the result that it owns. With BY_ROW an index names a row, otherwise an element.
$if ADDED
#define MOVE(to, from, i) (to) += LOAD(from, i)
#define MOVED STORAGE
#define RESULT REAL
$else
#define MOVE(to, from, i) (to) = (from)[i]
#define MOVED element
#define RESULT element
$end

$kernel KERNEL(read MOVED x, read INDEX indices, write RESULT out, write int* flag, int code, indexing g) {
    OWN_ROWS {
        const long count = COUNT;
        __global const MOVED* from = FROM(x);
        __global RESULT* to = TO(out);
        $if ADDED
        CLEAR(to)
        $end
        $if BY_ROW
        for (long i = 0; i < count; i++) {
            const long row = checked(indices[i], i, g.axis, flag, code);
            if (row >= first && row < last)
                for (long c = begin; c < end; c++) MOVE(to[row * g.after + c], from, i * g.after + c);
        }
        $else
        __global const INDEX* own = FROM(indices);
        for (long i = 0; i < count; i++)
            for (long c = begin; c < end; c++) {
                const long row = checked(own[i * g.after + c], (outer * g.count + i) * g.after + c, g.axis, flag, code);
                if (row >= first && row < last) MOVE(to[row * g.after + c], from, i * g.after + c);
            }
        $end
    }
}
