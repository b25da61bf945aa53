// 1 work-items in groups of 1, numbers (64, 96, 64, 64)
#pragma OPENCL FP_CONTRACT OFF
typedef float8 __attribute__((aligned(4))) float8_packed;

__kernel void rows_922337014c(
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
        float8 t5 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
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
      float8 total14 = 0.0f;
      float8 error15 = 0.0f;
      float acc16 = 0.0f;
      float total17 = 0.0f;
      float error18 = 0.0f;
      for (size_t block22 = 0; block22 < end1; block22 += 512) {
        size_t stop23 = min(block22 + 512, end1);
        acc13 = 0.0f;
        for (size_t i1 = block22; i1 < stop23; i1 += 8) {
          float8 t19 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
          float8 t20 = t19 - (float8)(t10);
          float8 t21 = exp(t20);
          acc13 = acc13 + t21;
        }
        { float8 sum = total14 + acc13, part = sum - total14; error15 = error15 + ((total14 - (sum - part)) + (acc13 - part)); total14 = sum; }
      }
      {
        acc16 = 0.0f;
        for (size_t i1 = end1; i1 < n1; ++i1) {
          float t24 = in0[(i0 * n1 + i1)];
          float t25 = t24 - t10;
          float t26 = (exp((float8)(t25))).s0;
          acc16 = acc16 + t26;
        }
        { float sum = total17 + acc16, part = sum - total17; error18 = error18 + ((total17 - (sum - part)) + (acc16 - part)); total17 = sum; }
      }
      float4 t27 = total14.lo + total14.hi;
      float4 t28 = t27 - total14.lo;
      float4 error29 = error15.lo + error15.hi + ((total14.lo - (t27 - t28)) + (total14.hi - t28));
      float2 t30 = t27.lo + t27.hi;
      float2 t31 = t30 - t27.lo;
      float2 error32 = error29.lo + error29.hi + ((t27.lo - (t30 - t31)) + (t27.hi - t31));
      float t33 = t30.lo + t30.hi;
      float t34 = t33 - t30.lo;
      float error35 = error32.lo + error32.hi + ((t30.lo - (t33 - t34)) + (t30.hi - t34));
      float t36 = t33 + total17;
      float t37 = t36 - t33;
      float error38 = error35 + error18 + ((t33 - (t36 - t37)) + (total17 - t37));
      float t39 = ((error38 - error38 == 0.0f) ? t36 + error38 : t36);
      for (size_t i1 = 0; i1 < end1; i1 += 8) {
        float8 t2 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
        float8 t11 = t2 - (float8)(t10);
        float8 t12 = exp(t11);
        float8 t40 = t12 / (float8)(t39);
        *(__global float8_packed *)(out0 + (i0 * n1 + i1)) = t40;
      }
      for (size_t i1 = end1; i1 < n1; ++i1) {
        float t41 = in0[(i0 * n1 + i1)];
        float t42 = t41 - t10;
        float t43 = (exp((float8)(t42))).s0;
        float t44 = t43 / t39;
        out0[(i0 * n1 + i1)] = t44;
      }
    }
}

