// 1 work-items in groups of 1, numbers (8, 4, 96, 4, 4)
#pragma OPENCL FP_CONTRACT OFF
typedef float8 __attribute__((aligned(4))) float8_packed;

__kernel __attribute__((vec_type_hint(float16))) void rows_fc508155cc(
    __global const float *in0,
    __global float *out0,
    __global float *out1,
    __global float *out2,
    const ulong n0,
    const ulong n1,
    const ulong n2,
    const ulong rows,
    const ulong rows_each,
    const float s_size_0_2_float) {
    size_t item = get_global_id(0);
    size_t first = item * rows_each;
    for (size_t row = first; row < min(first + rows_each, rows); ++row) {
      size_t i1 = row;
      float8 acc3 = 0.0f;
      float8 total4 = 0.0f;
      float8 error5 = 0.0f;
      float acc6 = 0.0f;
      float total7 = 0.0f;
      float error8 = 0.0f;
      for (size_t i0 = 0; i0 < n0; ++i0) {
        size_t end9 = n2 / 8 * 8;
        for (size_t block11 = 0; block11 < end9; block11 += 512) {
          size_t stop12 = min(block11 + 512, end9);
          acc3 = 0.0f;
          for (size_t i2 = block11; i2 < stop12; i2 += 8) {
            float8 t10 = *(__global const float8_packed *)(in0 + ((i0 * n1 + i1) * n2 + i2));
            acc3 = acc3 + t10;
          }
          { float8 sum = total4 + acc3, part = sum - total4; error5 = error5 + ((total4 - (sum - part)) + (acc3 - part)); total4 = sum; }
        }
        {
          acc6 = 0.0f;
          #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
          for (size_t i2 = end9; i2 < n2; ++i2) {
            float t13 = in0[((i0 * n1 + i1) * n2 + i2)];
            acc6 = acc6 + t13;
          }
          { float sum = total7 + acc6, part = sum - total7; error8 = error8 + ((total7 - (sum - part)) + (acc6 - part)); total7 = sum; }
        }
      }
      float4 t14 = total4.lo + total4.hi;
      float4 t15 = t14 - total4.lo;
      float4 error16 = error5.lo + error5.hi + ((total4.lo - (t14 - t15)) + (total4.hi - t15));
      float2 t17 = t14.lo + t14.hi;
      float2 t18 = t17 - t14.lo;
      float2 error19 = error16.lo + error16.hi + ((t14.lo - (t17 - t18)) + (t14.hi - t18));
      float t20 = t17.lo + t17.hi;
      float t21 = t20 - t17.lo;
      float error22 = error19.lo + error19.hi + ((t17.lo - (t20 - t21)) + (t17.hi - t21));
      float t23 = t20 + total7;
      float t24 = t23 - t20;
      float error25 = error22 + error8 + ((t20 - (t23 - t24)) + (total7 - t24));
      float t26 = ((error25 - error25 == 0.0f) ? t23 + error25 : t23);
      float t27 = t26 / s_size_0_2_float;
      float8 acc29 = 0.0f;
      float8 total30 = 0.0f;
      float8 error31 = 0.0f;
      float acc32 = 0.0f;
      float total33 = 0.0f;
      float error34 = 0.0f;
      for (size_t i0 = 0; i0 < n0; ++i0) {
        size_t end35 = n2 / 8 * 8;
        for (size_t block39 = 0; block39 < end35; block39 += 512) {
          size_t stop40 = min(block39 + 512, end35);
          acc29 = 0.0f;
          for (size_t i2 = block39; i2 < stop40; i2 += 8) {
            float8 t36 = *(__global const float8_packed *)(in0 + ((i0 * n1 + i1) * n2 + i2));
            float8 t37 = t36 - (float8)(t27);
            float8 t38 = t37 * t37;
            acc29 = acc29 + t38;
          }
          { float8 sum = total30 + acc29, part = sum - total30; error31 = error31 + ((total30 - (sum - part)) + (acc29 - part)); total30 = sum; }
        }
        {
          acc32 = 0.0f;
          #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
          for (size_t i2 = end35; i2 < n2; ++i2) {
            float t41 = in0[((i0 * n1 + i1) * n2 + i2)];
            float t42 = t41 - t27;
            float t43 = t42 * t42;
            acc32 = acc32 + t43;
          }
          { float sum = total33 + acc32, part = sum - total33; error34 = error34 + ((total33 - (sum - part)) + (acc32 - part)); total33 = sum; }
        }
      }
      float4 t44 = total30.lo + total30.hi;
      float4 t45 = t44 - total30.lo;
      float4 error46 = error31.lo + error31.hi + ((total30.lo - (t44 - t45)) + (total30.hi - t45));
      float2 t47 = t44.lo + t44.hi;
      float2 t48 = t47 - t44.lo;
      float2 error49 = error46.lo + error46.hi + ((t44.lo - (t47 - t48)) + (t44.hi - t48));
      float t50 = t47.lo + t47.hi;
      float t51 = t50 - t47.lo;
      float error52 = error49.lo + error49.hi + ((t47.lo - (t50 - t51)) + (t47.hi - t51));
      float t53 = t50 + total33;
      float t54 = t53 - t50;
      float error55 = error52 + error34 + ((t50 - (t53 - t54)) + (total33 - t54));
      float t56 = ((error55 - error55 == 0.0f) ? t53 + error55 : t53);
      float t57 = t56 / s_size_0_2_float;
      float t58 = t57 + 1e-05f;
      float t59 = (rsqrt((float8)(t58))).s0;
      for (size_t i0 = 0; i0 < n0; ++i0) {
        size_t end1 = n2 / 8 * 8;
        for (size_t i2 = 0; i2 < end1; i2 += 8) {
          float8 t2 = *(__global const float8_packed *)(in0 + ((i0 * n1 + i1) * n2 + i2));
          float8 t28 = t2 - (float8)(t27);
          float8 t60 = t28 * (float8)(t59);
          *(__global float8_packed *)(out0 + ((i0 * n1 + i1) * n2 + i2)) = t60;
        }
        #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
        for (size_t i2 = end1; i2 < n2; ++i2) {
          float t61 = in0[((i0 * n1 + i1) * n2 + i2)];
          float t62 = t61 - t27;
          float t63 = t62 * t59;
          out0[((i0 * n1 + i1) * n2 + i2)] = t63;
        }
      }
      out1[i1] = t27;
      out2[i1] = t57;
    }
}

