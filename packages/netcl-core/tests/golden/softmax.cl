// 1 work-items in groups of 1, numbers (64, 96, 64, 64)
#pragma OPENCL FP_CONTRACT OFF

__kernel void rows_d71d7469c3(
    __global const float *in0,
    __global float *out0,
    const ulong n0,
    const ulong n1,
    const ulong rows,
    const ulong rows_each) {
    size_t item = get_global_id(0);
    size_t first = item * rows_each;
    for (size_t row = first; row < min(first + rows_each, rows); ++row) {
      size_t i0 = row;
      size_t end1 = n1 / 8 * 8;
      float8 acc3 = (-INFINITY);
      float acc4 = (-INFINITY);
      for (size_t i1 = 0; i1 < end1; i1 += 8) {
        float8 t5 = vload8(0, in0 + (i0 * n1 + i1));
        acc3 = (((t5 > acc3) | (t5 != t5)) ? t5 : acc3);
      }
      for (size_t i1 = end1; i1 < n1; ++i1) {
        float t6 = in0[(i0 * n1 + i1)];
        acc4 = (((t6 > acc4) | (t6 != t6)) ? t6 : acc4);
      }
      float4 t7 = (((acc3.hi > acc3.lo) | (acc3.hi != acc3.hi)) ? acc3.hi : acc3.lo);
      float2 t8 = (((t7.hi > t7.lo) | (t7.hi != t7.hi)) ? t7.hi : t7.lo);
      float t9 = (((t8.hi > t8.lo) | (t8.hi != t8.hi)) ? t8.hi : t8.lo);
      float t10 = (((acc4 > t9) | (acc4 != acc4)) ? acc4 : t9);
      float8 acc13 = 0.0f;
      float acc14 = 0.0f;
      for (size_t i1 = 0; i1 < end1; i1 += 8) {
        float8 t15 = vload8(0, in0 + (i0 * n1 + i1));
        float8 t16 = t15 - (float8)(t10);
        float8 t17 = exp(t16);
        acc13 = acc13 + t17;
      }
      for (size_t i1 = end1; i1 < n1; ++i1) {
        float t18 = in0[(i0 * n1 + i1)];
        float t19 = t18 - t10;
        float t20 = exp(t19);
        acc14 = acc14 + t20;
      }
      float4 t21 = acc13.lo + acc13.hi;
      float2 t22 = t21.lo + t21.hi;
      float t23 = t22.lo + t22.hi;
      float t24 = t23 + acc14;
      for (size_t i1 = 0; i1 < end1; i1 += 8) {
        float8 t2 = vload8(0, in0 + (i0 * n1 + i1));
        float8 t11 = t2 - (float8)(t10);
        float8 t12 = exp(t11);
        float8 t25 = t12 / (float8)(t24);
        vstore8(t25, 0, out0 + (i0 * n1 + i1));
      }
      for (size_t i1 = end1; i1 < n1; ++i1) {
        float t26 = in0[(i0 * n1 + i1)];
        float t27 = t26 - t10;
        float t28 = exp(t27);
        float t29 = t28 / t24;
        out0[(i0 * n1 + i1)] = t29;
      }
    }
}

