// 1 work-items in groups of 1, numbers (64, 10, 64, 64)
#pragma OPENCL FP_CONTRACT OFF
typedef float8 __attribute__((aligned(4))) float8_packed;

__kernel __attribute__((vec_type_hint(float16))) void rows_3f765be33b(
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
      int8 nan18 = 0;
      float acc19 = (-INFINITY);
      int nan20 = 0;
      for (size_t i1 = 0; i1 < end1; i1 += 8) {
        float8 t21 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
        acc17 = (t21 > acc17) ? t21 : acc17;
        nan18 = nan18 | (t21 != t21);
      }
      #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
      for (size_t i1 = end1; i1 < n1; ++i1) {
        float t22 = in0[(i0 * n1 + i1)];
        acc19 = (t22 > acc19) ? t22 : acc19;
        nan20 = nan20 | (t22 != t22);
      }
      acc17 = nan18 ? (float8)(NAN) : acc17;
      acc19 = nan20 ? NAN : acc19;
      float4 t23 = (((acc17.hi > acc17.lo) | (acc17.hi != acc17.hi)) ? acc17.hi : acc17.lo);
      float2 t24 = (((t23.hi > t23.lo) | (t23.hi != t23.hi)) ? t23.hi : t23.lo);
      float t25 = (((t24.hi > t24.lo) | (t24.hi != t24.hi)) ? t24.hi : t24.lo);
      float t26 = (((acc19 > t25) | (acc19 != acc19)) ? acc19 : t25);
      for (size_t block29 = 0; block29 < end1; block29 += 512) {
        size_t stop30 = min(block29 + 512, end1);
        acc10 = 0.0f;
        for (size_t i1 = block29; i1 < stop30; i1 += 8) {
          float8 t16 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
          float8 t27 = t16 - (float8)(t26);
          float8 t28 = exp(t27);
          acc10 = acc10 + t28;
          *(__global float8_packed *)(out0 + (i0 * n1 + i1)) = t28;
        }
        { float8 sum = total11 + acc10, part = sum - total11; error12 = error12 + ((total11 - (sum - part)) + (acc10 - part)); total11 = sum; }
      }
      {
        acc13 = 0.0f;
        #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
        for (size_t i1 = end1; i1 < n1; ++i1) {
          float t31 = in0[(i0 * n1 + i1)];
          float t32 = t31 - t26;
          float t33 = (exp((float8)(t32))).s0;
          acc13 = acc13 + t33;
          out0[(i0 * n1 + i1)] = t33;
        }
        { float sum = total14 + acc13, part = sum - total14; error15 = error15 + ((total14 - (sum - part)) + (acc13 - part)); total14 = sum; }
      }
      float4 t34 = total11.lo + total11.hi;
      float4 t35 = t34 - total11.lo;
      float4 error36 = error12.lo + error12.hi + ((total11.lo - (t34 - t35)) + (total11.hi - t35));
      float2 t37 = t34.lo + t34.hi;
      float2 t38 = t37 - t34.lo;
      float2 error39 = error36.lo + error36.hi + ((t34.lo - (t37 - t38)) + (t34.hi - t38));
      float t40 = t37.lo + t37.hi;
      float t41 = t40 - t37.lo;
      float error42 = error39.lo + error39.hi + ((t37.lo - (t40 - t41)) + (t37.hi - t41));
      float t43 = t40 + total14;
      float t44 = t43 - t40;
      float error45 = error42 + error15 + ((t40 - (t43 - t44)) + (total14 - t44));
      float t46 = ((error45 - error45 == 0.0f) ? t43 + error45 : t43);
      float t47 = t7 / t46;
      for (size_t i1 = 0; i1 < end1; i1 += 8) {
        float8 t2 = *(__global const float8_packed *)(out0 + (i0 * n1 + i1));
        int8 t3 = (int8)((int)i1) + (int8)(0, 1, 2, 3, 4, 5, 6, 7);
        int8 t6 = (t3 == (int8)(t5));
        float8 t9 = (t6 ? (float8)(t8) : (float8)(0.0f));
        float8 t48 = (float8)(t47) * t2;
        float8 t49 = t9 + t48;
        *(__global float8_packed *)(out0 + (i0 * n1 + i1)) = t49;
      }
      #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
      for (size_t i1 = end1; i1 < n1; ++i1) {
        float t50 = out0[(i0 * n1 + i1)];
        int t51 = (int)i1;
        int t52 = (t51 == t5);
        float t53 = (t52 ? t8 : 0.0f);
        float t54 = t47 * t50;
        float t55 = t53 + t54;
        out0[(i0 * n1 + i1)] = t55;
      }
    }
}

