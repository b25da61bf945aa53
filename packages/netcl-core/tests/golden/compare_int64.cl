// 1 work-items in groups of 1, numbers (100, 1, 1, 104, 1)
#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((vec_type_hint(float16))) void map_3f3b3f08da(
    __global const long *in0,
    __global const long *in1,
    __global uchar *out0,
    const ulong n0,
    const ulong rows,
    const ulong rows_each,
    const ulong chunk,
    const ulong chunks) {
    size_t item = get_global_id(0);
    size_t start = item % chunks * chunk;
    size_t stop = min(start + chunk, n0);
    size_t first = item / chunks * rows_each;
    for (size_t row = first; row < min(first + rows_each, rows); ++row) {
      for (size_t i0 = start; i0 < stop; ++i0) {
        long t1 = in0[i0];
        long t2 = in1[i0];
        int t3 = (t1 < t2);
        out0[i0] = (uchar)(t3 & 1);
      }
    }
}

