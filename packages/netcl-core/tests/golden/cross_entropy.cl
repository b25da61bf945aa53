// 1 work-items in groups of 1, numbers (64, 10, 1, 1)
#pragma OPENCL FP_CONTRACT OFF

__kernel void reduce_a41c54cb63(
    __global const float *in0,
    __global const long *in1,
    __global float *out0,
    const ulong n0,
    const ulong n1,
    const ulong rows,
    const ulong rows_each,
    const float s_size_0_float) {
    float acc1 = 0.0f;
    for (size_t i0 = 0; i0 < n0; ++i0) {
      float8 acc2 = 0.0f;
      float acc3 = 0.0f;
      size_t end4 = n1 / 8 * 8;
      float8 acc6 = (-INFINITY);
      float acc7 = (-INFINITY);
      float8 acc8 = 0.0f;
      float acc9 = 0.0f;
      long t12 = in1[i0];
      int t13 = (int)(t12);
      for (size_t i1 = 0; i1 < end4; i1 += 8) {
        float8 t10 = vload8(0, in0 + (i0 * n1 + i1));
        acc6 = (((t10 > acc6) | (t10 != t10)) ? t10 : acc6);
        int8 t11 = (int8)((int)i1) + (int8)(0, 1, 2, 3, 4, 5, 6, 7);
        int8 t14 = (t11 == (int8)(t13));
        float8 t15 = (t14 ? t10 : (float8)(0.0f));
        acc8 = acc8 + t15;
      }
      for (size_t i1 = end4; i1 < n1; ++i1) {
        float t16 = in0[(i0 * n1 + i1)];
        acc7 = (((t16 > acc7) | (t16 != t16)) ? t16 : acc7);
        int t17 = (int)i1;
        int t18 = (t17 == t13);
        float t19 = (t18 ? t16 : 0.0f);
        acc9 = acc9 + t19;
      }
      float4 t20 = (((acc6.hi > acc6.lo) | (acc6.hi != acc6.hi)) ? acc6.hi : acc6.lo);
      float2 t21 = (((t20.hi > t20.lo) | (t20.hi != t20.hi)) ? t20.hi : t20.lo);
      float t22 = (((t21.hi > t21.lo) | (t21.hi != t21.hi)) ? t21.hi : t21.lo);
      float t23 = (((acc7 > t22) | (acc7 != acc7)) ? acc7 : t22);
      float4 t24 = acc8.lo + acc8.hi;
      float2 t25 = t24.lo + t24.hi;
      float t26 = t25.lo + t25.hi;
      float t27 = t26 + acc9;
      for (size_t i1 = 0; i1 < end4; i1 += 8) {
        float8 t5 = vload8(0, in0 + (i0 * n1 + i1));
        float8 t28 = t5 - (float8)(t23);
        float8 t29 = exp(t28);
        acc2 = acc2 + t29;
      }
      for (size_t i1 = end4; i1 < n1; ++i1) {
        float t30 = in0[(i0 * n1 + i1)];
        float t31 = t30 - t23;
        float t32 = exp(t31);
        acc3 = acc3 + t32;
      }
      float4 t33 = acc2.lo + acc2.hi;
      float2 t34 = t33.lo + t33.hi;
      float t35 = t34.lo + t34.hi;
      float t36 = t35 + acc3;
      float t37 = log(t36);
      float t38 = t37 + t23;
      float t39 = t38 - t27;
      acc1 = acc1 + t39;
    }
    float t40 = acc1 / s_size_0_float;
    size_t item = get_global_id(0);
    size_t first = item * rows_each;
    for (size_t row = first; row < min(first + rows_each, rows); ++row) {
      out0[0] = t40;
    }
}

