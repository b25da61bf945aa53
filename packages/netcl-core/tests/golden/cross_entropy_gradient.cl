// 1 work-items in groups of 1, numbers (64, 10, 64, 64)
#pragma OPENCL FP_CONTRACT OFF
typedef float8 __attribute__((aligned(4))) float8_packed;

__kernel void rows_4f46764c54(
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
      float8 total10 = 0.0f;
      float8 error11 = 0.0f;
      float acc12 = 0.0f;
      float total13 = 0.0f;
      float error14 = 0.0f;
      float8 acc16 = (-INFINITY);
      float acc17 = (-INFINITY);
      for (size_t i1 = 0; i1 < end1; i1 += 8) {
        float8 t18 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
        acc16 = (((t18 > acc16) | (t18 != t18)) ? t18 : acc16);
      }
      for (size_t i1 = end1; i1 < n1; ++i1) {
        float t19 = in0[(i0 * n1 + i1)];
        acc17 = (((t19 > acc17) | (t19 != t19)) ? t19 : acc17);
      }
      float4 t20 = (((acc16.hi > acc16.lo) | (acc16.hi != acc16.hi)) ? acc16.hi : acc16.lo);
      float2 t21 = (((t20.hi > t20.lo) | (t20.hi != t20.hi)) ? t20.hi : t20.lo);
      float t22 = (((t21.hi > t21.lo) | (t21.hi != t21.hi)) ? t21.hi : t21.lo);
      float t23 = (((acc17 > t22) | (acc17 != acc17)) ? acc17 : t22);
      for (size_t block26 = 0; block26 < end1; block26 += 512) {
        size_t stop27 = min(block26 + 512, end1);
        acc9 = 0.0f;
        for (size_t i1 = block26; i1 < stop27; i1 += 8) {
          float8 t15 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
          float8 t24 = t15 - (float8)(t23);
          float8 t25 = exp(t24);
          acc9 = acc9 + t25;
        }
        { float8 sum = total10 + acc9, part = sum - total10; error11 = error11 + ((total10 - (sum - part)) + (acc9 - part)); total10 = sum; }
      }
      {
        acc12 = 0.0f;
        for (size_t i1 = end1; i1 < n1; ++i1) {
          float t28 = in0[(i0 * n1 + i1)];
          float t29 = t28 - t23;
          float t30 = (exp((float8)(t29))).s0;
          acc12 = acc12 + t30;
        }
        { float sum = total13 + acc12, part = sum - total13; error14 = error14 + ((total13 - (sum - part)) + (acc12 - part)); total13 = sum; }
      }
      float4 t31 = total10.lo + total10.hi;
      float4 t32 = t31 - total10.lo;
      float4 error33 = error11.lo + error11.hi + ((total10.lo - (t31 - t32)) + (total10.hi - t32));
      float2 t34 = t31.lo + t31.hi;
      float2 t35 = t34 - t31.lo;
      float2 error36 = error33.lo + error33.hi + ((t31.lo - (t34 - t35)) + (t31.hi - t35));
      float t37 = t34.lo + t34.hi;
      float t38 = t37 - t34.lo;
      float error39 = error36.lo + error36.hi + ((t34.lo - (t37 - t38)) + (t34.hi - t38));
      float t40 = t37 + total13;
      float t41 = t40 - t37;
      float error42 = error39 + error14 + ((t37 - (t40 - t41)) + (total13 - t41));
      float t43 = ((error42 - error42 == 0.0f) ? t40 + error42 : t40);
      float t44 = t6 / t43;
      for (size_t i1 = 0; i1 < end1; i1 += 8) {
        int8 t2 = (int8)((int)i1) + (int8)(0, 1, 2, 3, 4, 5, 6, 7);
        int8 t5 = (t2 == (int8)(t4));
        float8 t8 = (t5 ? (float8)(t7) : (float8)(0.0f));
        float8 t45 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
        float8 t46 = t45 - (float8)(t23);
        float8 t47 = exp(t46);
        float8 t48 = (float8)(t44) * t47;
        float8 t49 = t8 + t48;
        *(__global float8_packed *)(out0 + (i0 * n1 + i1)) = t49;
      }
      for (size_t i1 = end1; i1 < n1; ++i1) {
        int t50 = (int)i1;
        int t51 = (t50 == t4);
        float t52 = (t51 ? t7 : 0.0f);
        float t53 = in0[(i0 * n1 + i1)];
        float t54 = t53 - t23;
        float t55 = (exp((float8)(t54))).s0;
        float t56 = t44 * t55;
        float t57 = t52 + t56;
        out0[(i0 * n1 + i1)] = t57;
      }
    }
}

