// 1 work-items in groups of 1, numbers (6144, 1, 1, 6144, 1)
#pragma OPENCL FP_CONTRACT OFF
typedef float8 __attribute__((aligned(4))) float8_packed;

__kernel __attribute__((vec_type_hint(float16))) void map_793b038da3(
    __global const float *in0,
    __global const float *in1,
    __global float *out0,
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
      size_t end1 = start + (stop - start) / 8 * 8;
      for (size_t i0 = start; i0 < end1; i0 += 8) {
        float8 t2 = *(__global const float8_packed *)(in0 + i0);
        float8 t3 = *(__global const float8_packed *)(in1 + i0);
        float8 t4 = t2 + t3;
        *(__global float8_packed *)(out0 + i0) = t4;
      }
      #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
      for (size_t i0 = end1; i0 < stop; ++i0) {
        float t5 = in0[i0];
        float t6 = in1[i0];
        float t7 = t5 + t6;
        out0[i0] = t7;
      }
    }
}

