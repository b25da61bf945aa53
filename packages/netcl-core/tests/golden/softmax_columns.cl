// 1 work-items in groups of 1, numbers (64, 96, 1, 1, 96, 1)
#pragma OPENCL FP_CONTRACT OFF

__kernel void rows_55a1eb3fc2(
    __global const float *in0,
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
      size_t end1 = start + (stop - start) / 8 * 8;
      for (size_t i1 = start; i1 < end1; i1 += 8) {
        float8 acc3 = (-INFINITY);
        for (size_t i0 = 0; i0 < n0; ++i0) {
          float8 t4 = vload8(0, in0 + (i0 * n1 + i1));
          acc3 = (((t4 > acc3) | (t4 != t4)) ? t4 : acc3);
        }
        float8 acc7 = 0.0f;
        for (size_t i0 = 0; i0 < n0; ++i0) {
          float8 t8 = vload8(0, in0 + (i0 * n1 + i1));
          float8 t9 = t8 - acc3;
          float8 t10 = exp(t9);
          acc7 = acc7 + t10;
        }
        for (size_t i0 = 0; i0 < n0; ++i0) {
          float8 t2 = vload8(0, in0 + (i0 * n1 + i1));
          float8 t5 = t2 - acc3;
          float8 t6 = exp(t5);
          float8 t11 = t6 / acc7;
          vstore8(t11, 0, out0 + (i0 * n1 + i1));
        }
      }
      for (size_t i1 = end1; i1 < stop; ++i1) {
        float acc13 = (-INFINITY);
        for (size_t i0 = 0; i0 < n0; ++i0) {
          float t14 = in0[(i0 * n1 + i1)];
          acc13 = (((t14 > acc13) | (t14 != t14)) ? t14 : acc13);
        }
        float acc17 = 0.0f;
        for (size_t i0 = 0; i0 < n0; ++i0) {
          float t18 = in0[(i0 * n1 + i1)];
          float t19 = t18 - acc13;
          float t20 = exp(t19);
          acc17 = acc17 + t20;
        }
        for (size_t i0 = 0; i0 < n0; ++i0) {
          float t12 = in0[(i0 * n1 + i1)];
          float t15 = t12 - acc13;
          float t16 = exp(t15);
          float t21 = t16 / acc17;
          out0[(i0 * n1 + i1)] = t21;
        }
      }
    }
}

