// 1 work-items in groups of 1, numbers (64, 10, 64, 64)
#pragma OPENCL FP_CONTRACT OFF
typedef float8 __attribute__((aligned(4))) float8_packed;

__kernel void rows_6d59862c78(
    __global const float *in0,
    __global const long *in1,
    __global float *out0,
    const ulong n0,
    const ulong n1,
    const ulong rows,
    const ulong rows_each,
    const float s_size_0_float) {
    float t7 = 1.0f / s_size_0_float;
    float t8 = -t7;
    size_t item = get_global_id(0);
    size_t first = item * rows_each;
    for (size_t row = first; row < min(first + rows_each, rows); ++row) {
      size_t i0 = row;
      size_t end1 = n1 / 8 * 8;
      long t4 = in1[i0];
      int t5 = (int)(t4);
      float8 acc10 = 0.0f;
      float8 total11 = 0.0f;
      float8 error12 = 0.0f;
      float acc13 = 0.0f;
      float total14 = 0.0f;
      float error15 = 0.0f;
      float8 acc17 = (-INFINITY);
      float acc18 = (-INFINITY);
      for (size_t i1 = 0; i1 < end1; i1 += 8) {
        float8 t19 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
        acc17 = (((t19 > acc17) | (t19 != t19)) ? t19 : acc17);
      }
      for (size_t i1 = end1; i1 < n1; ++i1) {
        float t20 = in0[(i0 * n1 + i1)];
        acc18 = (((t20 > acc18) | (t20 != t20)) ? t20 : acc18);
      }
      float4 t21 = (((acc17.hi > acc17.lo) | (acc17.hi != acc17.hi)) ? acc17.hi : acc17.lo);
      float2 t22 = (((t21.hi > t21.lo) | (t21.hi != t21.hi)) ? t21.hi : t21.lo);
      float t23 = (((t22.hi > t22.lo) | (t22.hi != t22.hi)) ? t22.hi : t22.lo);
      float t24 = (((acc18 > t23) | (acc18 != acc18)) ? acc18 : t23);
      for (size_t block27 = 0; block27 < end1; block27 += 512) {
        size_t stop28 = min(block27 + 512, end1);
        acc10 = 0.0f;
        for (size_t i1 = block27; i1 < stop28; i1 += 8) {
          float8 t16 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
          float8 t25 = t16 - (float8)(t24);
          float8 t26 = exp(t25);
          acc10 = acc10 + t26;
          *(__global float8_packed *)(out0 + (i0 * n1 + i1)) = t26;
        }
        { float8 sum = total11 + acc10, part = sum - total11; error12 = error12 + ((total11 - (sum - part)) + (acc10 - part)); total11 = sum; }
      }
      {
        acc13 = 0.0f;
        for (size_t i1 = end1; i1 < n1; ++i1) {
          float t29 = in0[(i0 * n1 + i1)];
          float t30 = t29 - t24;
          float t31 = (exp((float8)(t30))).s0;
          acc13 = acc13 + t31;
          out0[(i0 * n1 + i1)] = t31;
        }
        { float sum = total14 + acc13, part = sum - total14; error15 = error15 + ((total14 - (sum - part)) + (acc13 - part)); total14 = sum; }
      }
      float4 t32 = total11.lo + total11.hi;
      float4 t33 = t32 - total11.lo;
      float4 error34 = error12.lo + error12.hi + ((total11.lo - (t32 - t33)) + (total11.hi - t33));
      float2 t35 = t32.lo + t32.hi;
      float2 t36 = t35 - t32.lo;
      float2 error37 = error34.lo + error34.hi + ((t32.lo - (t35 - t36)) + (t32.hi - t36));
      float t38 = t35.lo + t35.hi;
      float t39 = t38 - t35.lo;
      float error40 = error37.lo + error37.hi + ((t35.lo - (t38 - t39)) + (t35.hi - t39));
      float t41 = t38 + total14;
      float t42 = t41 - t38;
      float error43 = error40 + error15 + ((t38 - (t41 - t42)) + (total14 - t42));
      float t44 = ((error43 - error43 == 0.0f) ? t41 + error43 : t41);
      float t45 = t7 / t44;
      for (size_t i1 = 0; i1 < end1; i1 += 8) {
        float8 t2 = *(__global const float8_packed *)(out0 + (i0 * n1 + i1));
        int8 t3 = (int8)((int)i1) + (int8)(0, 1, 2, 3, 4, 5, 6, 7);
        int8 t6 = (t3 == (int8)(t5));
        float8 t9 = (t6 ? (float8)(t8) : (float8)(0.0f));
        float8 t46 = (float8)(t45) * t2;
        float8 t47 = t9 + t46;
        *(__global float8_packed *)(out0 + (i0 * n1 + i1)) = t47;
      }
      for (size_t i1 = end1; i1 < n1; ++i1) {
        float t48 = out0[(i0 * n1 + i1)];
        int t49 = (int)i1;
        int t50 = (t49 == t5);
        float t51 = (t50 ? t8 : 0.0f);
        float t52 = t45 * t48;
        float t53 = t51 + t52;
        out0[(i0 * n1 + i1)] = t53;
      }
    }
}

