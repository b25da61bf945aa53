// 1 work-items in groups of 1, numbers (64, 96, 64, 64, 96, 1)
#pragma OPENCL FP_CONTRACT OFF
typedef float8 __attribute__((aligned(4))) float8_packed;

__kernel __attribute__((vec_type_hint(float16))) void map_7953f07af0(
    __global const float *in0,
    __global const float *in1,
    __global float *out0,
    const ulong n0,
    const ulong n1,
    const ulong rows,
    const ulong rows_each,
    const ulong chunk,
    const ulong chunks) {
    size_t item = get_global_id(0);
    size_t start = item % chunks * chunk;
    size_t stop = min(start + chunk, n1);
    size_t first = item / chunks * rows_each;
    for (size_t row = first; row < min(first + rows_each, rows); ++row) {
      size_t i0 = row;
      size_t end1 = start + (stop - start) / 8 * 8;
      float t3 = in1[i0];
      for (size_t i1 = start; i1 < end1; i1 += 8) {
        float8 t2 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
        float8 t4 = t2 + (float8)(t3);
        *(__global float8_packed *)(out0 + (i0 * n1 + i1)) = t4;
      }
      #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
      for (size_t i1 = end1; i1 < stop; ++i1) {
        float t5 = in0[(i0 * n1 + i1)];
        float t6 = t5 + t3;
        out0[(i0 * n1 + i1)] = t6;
      }
    }
}

