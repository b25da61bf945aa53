// 1 work-items in groups of 1, numbers (64, 10, 64, 64)
#pragma OPENCL FP_CONTRACT OFF

__kernel void rows_c1f4029011(
    __global const float *in0,
    __global const long *in1,
    __global float *out0,
    const ulong n0,
    const ulong n1,
    const ulong rows,
    const ulong rows_each,
    const float s_size_0_float) {
    float t6 = 1.0f / s_size_0_float;
    float t7 = -t6;
    size_t item = get_global_id(0);
    size_t first = item * rows_each;
    for (size_t row = first; row < min(first + rows_each, rows); ++row) {
      size_t i0 = row;
      size_t end1 = n1 / 8 * 8;
      long t3 = in1[i0];
      int t4 = (int)(t3);
      float8 acc9 = 0.0f;
      float acc10 = 0.0f;
      float8 acc12 = (-INFINITY);
      float acc13 = (-INFINITY);
      for (size_t i1 = 0; i1 < end1; i1 += 8) {
        float8 t14 = vload8(0, in0 + (i0 * n1 + i1));
        acc12 = (((t14 > acc12) | (t14 != t14)) ? t14 : acc12);
      }
      for (size_t i1 = end1; i1 < n1; ++i1) {
        float t15 = in0[(i0 * n1 + i1)];
        acc13 = (((t15 > acc13) | (t15 != t15)) ? t15 : acc13);
      }
      float4 t16 = (((acc12.hi > acc12.lo) | (acc12.hi != acc12.hi)) ? acc12.hi : acc12.lo);
      float2 t17 = (((t16.hi > t16.lo) | (t16.hi != t16.hi)) ? t16.hi : t16.lo);
      float t18 = (((t17.hi > t17.lo) | (t17.hi != t17.hi)) ? t17.hi : t17.lo);
      float t19 = (((acc13 > t18) | (acc13 != acc13)) ? acc13 : t18);
      for (size_t i1 = 0; i1 < end1; i1 += 8) {
        float8 t11 = vload8(0, in0 + (i0 * n1 + i1));
        float8 t20 = t11 - (float8)(t19);
        float8 t21 = exp(t20);
        acc9 = acc9 + t21;
      }
      for (size_t i1 = end1; i1 < n1; ++i1) {
        float t22 = in0[(i0 * n1 + i1)];
        float t23 = t22 - t19;
        float t24 = exp(t23);
        acc10 = acc10 + t24;
      }
      float4 t25 = acc9.lo + acc9.hi;
      float2 t26 = t25.lo + t25.hi;
      float t27 = t26.lo + t26.hi;
      float t28 = t27 + acc10;
      float t29 = t6 / t28;
      for (size_t i1 = 0; i1 < end1; i1 += 8) {
        int8 t2 = (int8)((int)i1) + (int8)(0, 1, 2, 3, 4, 5, 6, 7);
        int8 t5 = (t2 == (int8)(t4));
        float8 t8 = (t5 ? (float8)(t7) : (float8)(0.0f));
        float8 t30 = vload8(0, in0 + (i0 * n1 + i1));
        float8 t31 = t30 - (float8)(t19);
        float8 t32 = exp(t31);
        float8 t33 = (float8)(t29) * t32;
        float8 t34 = t8 + t33;
        vstore8(t34, 0, out0 + (i0 * n1 + i1));
      }
      for (size_t i1 = end1; i1 < n1; ++i1) {
        int t35 = (int)i1;
        int t36 = (t35 == t4);
        float t37 = (t36 ? t7 : 0.0f);
        float t38 = in0[(i0 * n1 + i1)];
        float t39 = t38 - t19;
        float t40 = exp(t39);
        float t41 = t29 * t40;
        float t42 = t37 + t41;
        out0[(i0 * n1 + i1)] = t42;
      }
    }
}

