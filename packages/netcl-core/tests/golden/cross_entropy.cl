// 1 work-items in groups of 1, numbers (64, 10, 1, 1)
#pragma OPENCL FP_CONTRACT OFF
typedef float8 __attribute__((aligned(4))) float8_packed;

__kernel __attribute__((vec_type_hint(float16))) void reduce_6208e8f7e7(
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
    for (size_t block74 = 0; block74 < n0; block74 += 64) {
      size_t stop75 = min(block74 + 64, n0);
      acc1 = 0.0f;
      #pragma clang loop vectorize(disable) interleave(disable)
      for (size_t i0 = block74; i0 < stop75; ++i0) {
        float8 acc4 = 0.0f;
        float8 total5 = 0.0f;
        float8 error6 = 0.0f;
        float acc7 = 0.0f;
        float total8 = 0.0f;
        float error9 = 0.0f;
        size_t end10 = n1 / 8 * 8;
        float8 acc12 = (-INFINITY);
        int8 nan13 = 0;
        float acc14 = (-INFINITY);
        int nan15 = 0;
        float8 acc16 = 0.0f;
        float8 total17 = 0.0f;
        float8 error18 = 0.0f;
        float acc19 = 0.0f;
        float total20 = 0.0f;
        float error21 = 0.0f;
        long t24 = in1[i0];
        int t25 = (int)(t24);
        for (size_t block28 = 0; block28 < end10; block28 += 512) {
          size_t stop29 = min(block28 + 512, end10);
          acc16 = 0.0f;
          for (size_t i1 = block28; i1 < stop29; i1 += 8) {
            float8 t22 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
            acc12 = (t22 > acc12) ? t22 : acc12;
            nan13 = nan13 | (t22 != t22);
            int8 t23 = (int8)((int)i1) + (int8)(0, 1, 2, 3, 4, 5, 6, 7);
            int8 t26 = (t23 == (int8)(t25));
            float8 t27 = (t26 ? t22 : (float8)(0.0f));
            acc16 = acc16 + t27;
          }
          { float8 sum = total17 + acc16, part = sum - total17; error18 = error18 + ((total17 - (sum - part)) + (acc16 - part)); total17 = sum; }
        }
        {
          acc19 = 0.0f;
          #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
          for (size_t i1 = end10; i1 < n1; ++i1) {
            float t30 = in0[(i0 * n1 + i1)];
            acc14 = (t30 > acc14) ? t30 : acc14;
            nan15 = nan15 | (t30 != t30);
            int t31 = (int)i1;
            int t32 = (t31 == t25);
            float t33 = (t32 ? t30 : 0.0f);
            acc19 = acc19 + t33;
          }
          { float sum = total20 + acc19, part = sum - total20; error21 = error21 + ((total20 - (sum - part)) + (acc19 - part)); total20 = sum; }
        }
        acc12 = nan13 ? (float8)(NAN) : acc12;
        acc14 = nan15 ? NAN : acc14;
        float4 t34 = (((acc12.hi > acc12.lo) | (acc12.hi != acc12.hi)) ? acc12.hi : acc12.lo);
        float2 t35 = (((t34.hi > t34.lo) | (t34.hi != t34.hi)) ? t34.hi : t34.lo);
        float t36 = (((t35.hi > t35.lo) | (t35.hi != t35.hi)) ? t35.hi : t35.lo);
        float t37 = (((acc14 > t36) | (acc14 != acc14)) ? acc14 : t36);
        float4 t38 = total17.lo + total17.hi;
        float4 t39 = t38 - total17.lo;
        float4 error40 = error18.lo + error18.hi + ((total17.lo - (t38 - t39)) + (total17.hi - t39));
        float2 t41 = t38.lo + t38.hi;
        float2 t42 = t41 - t38.lo;
        float2 error43 = error40.lo + error40.hi + ((t38.lo - (t41 - t42)) + (t38.hi - t42));
        float t44 = t41.lo + t41.hi;
        float t45 = t44 - t41.lo;
        float error46 = error43.lo + error43.hi + ((t41.lo - (t44 - t45)) + (t41.hi - t45));
        float t47 = t44 + total20;
        float t48 = t47 - t44;
        float error49 = error46 + error21 + ((t44 - (t47 - t48)) + (total20 - t48));
        float t50 = ((error49 - error49 == 0.0f) ? t47 + error49 : t47);
        for (size_t block53 = 0; block53 < end10; block53 += 512) {
          size_t stop54 = min(block53 + 512, end10);
          acc4 = 0.0f;
          for (size_t i1 = block53; i1 < stop54; i1 += 8) {
            float8 t11 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
            float8 t51 = t11 - (float8)(t37);
            float8 t52 = exp(t51);
            acc4 = acc4 + t52;
          }
          { float8 sum = total5 + acc4, part = sum - total5; error6 = error6 + ((total5 - (sum - part)) + (acc4 - part)); total5 = sum; }
        }
        {
          acc7 = 0.0f;
          #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
          for (size_t i1 = end10; i1 < n1; ++i1) {
            float t55 = in0[(i0 * n1 + i1)];
            float t56 = t55 - t37;
            float t57 = (exp((float8)(t56))).s0;
            acc7 = acc7 + t57;
          }
          { float sum = total8 + acc7, part = sum - total8; error9 = error9 + ((total8 - (sum - part)) + (acc7 - part)); total8 = sum; }
        }
        float4 t58 = total5.lo + total5.hi;
        float4 t59 = t58 - total5.lo;
        float4 error60 = error6.lo + error6.hi + ((total5.lo - (t58 - t59)) + (total5.hi - t59));
        float2 t61 = t58.lo + t58.hi;
        float2 t62 = t61 - t58.lo;
        float2 error63 = error60.lo + error60.hi + ((t58.lo - (t61 - t62)) + (t58.hi - t62));
        float t64 = t61.lo + t61.hi;
        float t65 = t64 - t61.lo;
        float error66 = error63.lo + error63.hi + ((t61.lo - (t64 - t65)) + (t61.hi - t65));
        float t67 = t64 + total8;
        float t68 = t67 - t64;
        float error69 = error66 + error9 + ((t64 - (t67 - t68)) + (total8 - t68));
        float t70 = ((error69 - error69 == 0.0f) ? t67 + error69 : t67);
        float t71 = (log((float8)(t70))).s0;
        float t72 = t71 + t37;
        float t73 = t72 - t50;
        acc1 = acc1 + t73;
      }
      { float sum = total2 + acc1, part = sum - total2; error3 = error3 + ((total2 - (sum - part)) + (acc1 - part)); total2 = sum; }
    }
    float t76 = ((error3 - error3 == 0.0f) ? total2 + error3 : total2);
    float t77 = t76 / s_size_0_float;
    size_t item = get_global_id(0);
    size_t first = item * rows_each;
    for (size_t row = first; row < min(first + rows_each, rows); ++row) {
      out0[0] = t77;
    }
}

