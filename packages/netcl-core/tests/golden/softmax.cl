// 1 work-items in groups of 1, numbers (64, 96, 64, 64)
#pragma OPENCL FP_CONTRACT OFF
typedef float8 __attribute__((aligned(4))) float8_packed;

__kernel __attribute__((vec_type_hint(float16))) void rows_d9eb72fdab(
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
      float8 acc3 = 0.0f;
      float8 total4 = 0.0f;
      float8 error5 = 0.0f;
      float acc6 = 0.0f;
      float total7 = 0.0f;
      float error8 = 0.0f;
      float8 acc10 = (-INFINITY);
      int8 nan11 = 0;
      float acc12 = (-INFINITY);
      int nan13 = 0;
      for (size_t i1 = 0; i1 < end1; i1 += 8) {
        float8 t14 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
        acc10 = (t14 > acc10) ? t14 : acc10;
        nan11 = nan11 | (t14 != t14);
      }
      #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
      for (size_t i1 = end1; i1 < n1; ++i1) {
        float t15 = in0[(i0 * n1 + i1)];
        acc12 = (t15 > acc12) ? t15 : acc12;
        nan13 = nan13 | (t15 != t15);
      }
      acc10 = nan11 ? (float8)(NAN) : acc10;
      acc12 = nan13 ? NAN : acc12;
      float4 t16 = (((acc10.hi > acc10.lo) | (acc10.hi != acc10.hi)) ? acc10.hi : acc10.lo);
      float2 t17 = (((t16.hi > t16.lo) | (t16.hi != t16.hi)) ? t16.hi : t16.lo);
      float t18 = (((t17.hi > t17.lo) | (t17.hi != t17.hi)) ? t17.hi : t17.lo);
      float t19 = (((acc12 > t18) | (acc12 != acc12)) ? acc12 : t18);
      for (size_t block22 = 0; block22 < end1; block22 += 512) {
        size_t stop23 = min(block22 + 512, end1);
        acc3 = 0.0f;
        for (size_t i1 = block22; i1 < stop23; i1 += 8) {
          float8 t9 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
          float8 t20 = t9 - (float8)(t19);
          float8 t21 = exp(t20);
          acc3 = acc3 + t21;
          *(__global float8_packed *)(out0 + (i0 * n1 + i1)) = t21;
        }
        { float8 sum = total4 + acc3, part = sum - total4; error5 = error5 + ((total4 - (sum - part)) + (acc3 - part)); total4 = sum; }
      }
      {
        acc6 = 0.0f;
        #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
        for (size_t i1 = end1; i1 < n1; ++i1) {
          float t24 = in0[(i0 * n1 + i1)];
          float t25 = t24 - t19;
          float t26 = (exp((float8)(t25))).s0;
          acc6 = acc6 + t26;
          out0[(i0 * n1 + i1)] = t26;
        }
        { float sum = total7 + acc6, part = sum - total7; error8 = error8 + ((total7 - (sum - part)) + (acc6 - part)); total7 = sum; }
      }
      float4 t27 = total4.lo + total4.hi;
      float4 t28 = t27 - total4.lo;
      float4 error29 = error5.lo + error5.hi + ((total4.lo - (t27 - t28)) + (total4.hi - t28));
      float2 t30 = t27.lo + t27.hi;
      float2 t31 = t30 - t27.lo;
      float2 error32 = error29.lo + error29.hi + ((t27.lo - (t30 - t31)) + (t27.hi - t31));
      float t33 = t30.lo + t30.hi;
      float t34 = t33 - t30.lo;
      float error35 = error32.lo + error32.hi + ((t30.lo - (t33 - t34)) + (t30.hi - t34));
      float t36 = t33 + total7;
      float t37 = t36 - t33;
      float error38 = error35 + error8 + ((t33 - (t36 - t37)) + (total7 - t37));
      float t39 = ((error38 - error38 == 0.0f) ? t36 + error38 : t36);
      for (size_t i1 = 0; i1 < end1; i1 += 8) {
        float8 t2 = *(__global const float8_packed *)(out0 + (i0 * n1 + i1));
        float8 t40 = t2 / (float8)(t39);
        *(__global float8_packed *)(out0 + (i0 * n1 + i1)) = t40;
      }
      #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
      for (size_t i1 = end1; i1 < n1; ++i1) {
        float t41 = out0[(i0 * n1 + i1)];
        float t42 = t41 / t39;
        out0[(i0 * n1 + i1)] = t42;
      }
    }
}

