// 1 work-items in groups of 1, numbers (64, 10, 1, 1)
#pragma OPENCL FP_CONTRACT OFF
typedef float8 __attribute__((aligned(4))) float8_packed;

__kernel void reduce_fbbb7b95c3(
    __global const float *in0,
    __global const long *in1,
    __global float *out0,
    const ulong n0,
    const ulong n1,
    const ulong rows,
    const ulong rows_each,
    const float s_size_0_float) {
    float acc1 = 0.0f;
    float total2 = 0.0f;
    float error3 = 0.0f;
    for (size_t block72 = 0; block72 < n0; block72 += 64) {
      size_t stop73 = min(block72 + 64, n0);
      acc1 = 0.0f;
      for (size_t i0 = block72; i0 < stop73; ++i0) {
        float8 acc4 = 0.0f;
        float8 total5 = 0.0f;
        float8 error6 = 0.0f;
        float acc7 = 0.0f;
        float total8 = 0.0f;
        float error9 = 0.0f;
        size_t end10 = n1 / 8 * 8;
        float8 acc12 = (-INFINITY);
        float acc13 = (-INFINITY);
        float8 acc14 = 0.0f;
        float8 total15 = 0.0f;
        float8 error16 = 0.0f;
        float acc17 = 0.0f;
        float total18 = 0.0f;
        float error19 = 0.0f;
        long t22 = in1[i0];
        int t23 = (int)(t22);
        for (size_t block26 = 0; block26 < end10; block26 += 512) {
          size_t stop27 = min(block26 + 512, end10);
          acc14 = 0.0f;
          for (size_t i1 = block26; i1 < stop27; i1 += 8) {
            float8 t20 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
            acc12 = (((t20 > acc12) | (t20 != t20)) ? t20 : acc12);
            int8 t21 = (int8)((int)i1) + (int8)(0, 1, 2, 3, 4, 5, 6, 7);
            int8 t24 = (t21 == (int8)(t23));
            float8 t25 = (t24 ? t20 : (float8)(0.0f));
            acc14 = acc14 + t25;
          }
          { float8 sum = total15 + acc14, part = sum - total15; error16 = error16 + ((total15 - (sum - part)) + (acc14 - part)); total15 = sum; }
        }
        {
          acc17 = 0.0f;
          for (size_t i1 = end10; i1 < n1; ++i1) {
            float t28 = in0[(i0 * n1 + i1)];
            acc13 = (((t28 > acc13) | (t28 != t28)) ? t28 : acc13);
            int t29 = (int)i1;
            int t30 = (t29 == t23);
            float t31 = (t30 ? t28 : 0.0f);
            acc17 = acc17 + t31;
          }
          { float sum = total18 + acc17, part = sum - total18; error19 = error19 + ((total18 - (sum - part)) + (acc17 - part)); total18 = sum; }
        }
        float4 t32 = (((acc12.hi > acc12.lo) | (acc12.hi != acc12.hi)) ? acc12.hi : acc12.lo);
        float2 t33 = (((t32.hi > t32.lo) | (t32.hi != t32.hi)) ? t32.hi : t32.lo);
        float t34 = (((t33.hi > t33.lo) | (t33.hi != t33.hi)) ? t33.hi : t33.lo);
        float t35 = (((acc13 > t34) | (acc13 != acc13)) ? acc13 : t34);
        float4 t36 = total15.lo + total15.hi;
        float4 t37 = t36 - total15.lo;
        float4 error38 = error16.lo + error16.hi + ((total15.lo - (t36 - t37)) + (total15.hi - t37));
        float2 t39 = t36.lo + t36.hi;
        float2 t40 = t39 - t36.lo;
        float2 error41 = error38.lo + error38.hi + ((t36.lo - (t39 - t40)) + (t36.hi - t40));
        float t42 = t39.lo + t39.hi;
        float t43 = t42 - t39.lo;
        float error44 = error41.lo + error41.hi + ((t39.lo - (t42 - t43)) + (t39.hi - t43));
        float t45 = t42 + total18;
        float t46 = t45 - t42;
        float error47 = error44 + error19 + ((t42 - (t45 - t46)) + (total18 - t46));
        float t48 = ((error47 - error47 == 0.0f) ? t45 + error47 : t45);
        for (size_t block51 = 0; block51 < end10; block51 += 512) {
          size_t stop52 = min(block51 + 512, end10);
          acc4 = 0.0f;
          for (size_t i1 = block51; i1 < stop52; i1 += 8) {
            float8 t11 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
            float8 t49 = t11 - (float8)(t35);
            float8 t50 = exp(t49);
            acc4 = acc4 + t50;
          }
          { float8 sum = total5 + acc4, part = sum - total5; error6 = error6 + ((total5 - (sum - part)) + (acc4 - part)); total5 = sum; }
        }
        {
          acc7 = 0.0f;
          for (size_t i1 = end10; i1 < n1; ++i1) {
            float t53 = in0[(i0 * n1 + i1)];
            float t54 = t53 - t35;
            float t55 = (exp((float8)(t54))).s0;
            acc7 = acc7 + t55;
          }
          { float sum = total8 + acc7, part = sum - total8; error9 = error9 + ((total8 - (sum - part)) + (acc7 - part)); total8 = sum; }
        }
        float4 t56 = total5.lo + total5.hi;
        float4 t57 = t56 - total5.lo;
        float4 error58 = error6.lo + error6.hi + ((total5.lo - (t56 - t57)) + (total5.hi - t57));
        float2 t59 = t56.lo + t56.hi;
        float2 t60 = t59 - t56.lo;
        float2 error61 = error58.lo + error58.hi + ((t56.lo - (t59 - t60)) + (t56.hi - t60));
        float t62 = t59.lo + t59.hi;
        float t63 = t62 - t59.lo;
        float error64 = error61.lo + error61.hi + ((t59.lo - (t62 - t63)) + (t59.hi - t63));
        float t65 = t62 + total8;
        float t66 = t65 - t62;
        float error67 = error64 + error9 + ((t62 - (t65 - t66)) + (total8 - t66));
        float t68 = ((error67 - error67 == 0.0f) ? t65 + error67 : t65);
        float t69 = (log((float8)(t68))).s0;
        float t70 = t69 + t35;
        float t71 = t70 - t48;
        acc1 = acc1 + t71;
      }
      { float sum = total2 + acc1, part = sum - total2; error3 = error3 + ((total2 - (sum - part)) + (acc1 - part)); total2 = sum; }
    }
    float t74 = ((error3 - error3 == 0.0f) ? total2 + error3 : total2);
    float t75 = t74 / s_size_0_float;
    size_t item = get_global_id(0);
    size_t first = item * rows_each;
    for (size_t row = first; row < min(first + rows_each, rows); ++row) {
      out0[0] = t75;
    }
}

