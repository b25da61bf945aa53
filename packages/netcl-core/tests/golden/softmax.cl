// 1 work-items in groups of 1, numbers (64, 96, 64, 64)
#pragma OPENCL FP_CONTRACT OFF
typedef float8 __attribute__((aligned(4))) float8_packed;

__kernel void rows_f6235ebc64(
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
      float acc11 = (-INFINITY);
      for (size_t i1 = 0; i1 < end1; i1 += 8) {
        float8 t12 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
        acc10 = (((t12 > acc10) | (t12 != t12)) ? t12 : acc10);
      }
      for (size_t i1 = end1; i1 < n1; ++i1) {
        float t13 = in0[(i0 * n1 + i1)];
        acc11 = (((t13 > acc11) | (t13 != t13)) ? t13 : acc11);
      }
      float4 t14 = (((acc10.hi > acc10.lo) | (acc10.hi != acc10.hi)) ? acc10.hi : acc10.lo);
      float2 t15 = (((t14.hi > t14.lo) | (t14.hi != t14.hi)) ? t14.hi : t14.lo);
      float t16 = (((t15.hi > t15.lo) | (t15.hi != t15.hi)) ? t15.hi : t15.lo);
      float t17 = (((acc11 > t16) | (acc11 != acc11)) ? acc11 : t16);
      for (size_t block20 = 0; block20 < end1; block20 += 512) {
        size_t stop21 = min(block20 + 512, end1);
        acc3 = 0.0f;
        for (size_t i1 = block20; i1 < stop21; i1 += 8) {
          float8 t9 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
          float8 t18 = t9 - (float8)(t17);
          float8 t19 = exp(t18);
          acc3 = acc3 + t19;
          *(__global float8_packed *)(out0 + (i0 * n1 + i1)) = t19;
        }
        { float8 sum = total4 + acc3, part = sum - total4; error5 = error5 + ((total4 - (sum - part)) + (acc3 - part)); total4 = sum; }
      }
      {
        acc6 = 0.0f;
        for (size_t i1 = end1; i1 < n1; ++i1) {
          float t22 = in0[(i0 * n1 + i1)];
          float t23 = t22 - t17;
          float t24 = (exp((float8)(t23))).s0;
          acc6 = acc6 + t24;
          out0[(i0 * n1 + i1)] = t24;
        }
        { float sum = total7 + acc6, part = sum - total7; error8 = error8 + ((total7 - (sum - part)) + (acc6 - part)); total7 = sum; }
      }
      float4 t25 = total4.lo + total4.hi;
      float4 t26 = t25 - total4.lo;
      float4 error27 = error5.lo + error5.hi + ((total4.lo - (t25 - t26)) + (total4.hi - t26));
      float2 t28 = t25.lo + t25.hi;
      float2 t29 = t28 - t25.lo;
      float2 error30 = error27.lo + error27.hi + ((t25.lo - (t28 - t29)) + (t25.hi - t29));
      float t31 = t28.lo + t28.hi;
      float t32 = t31 - t28.lo;
      float error33 = error30.lo + error30.hi + ((t28.lo - (t31 - t32)) + (t28.hi - t32));
      float t34 = t31 + total7;
      float t35 = t34 - t31;
      float error36 = error33 + error8 + ((t31 - (t34 - t35)) + (total7 - t35));
      float t37 = ((error36 - error36 == 0.0f) ? t34 + error36 : t34);
      for (size_t i1 = 0; i1 < end1; i1 += 8) {
        float8 t2 = *(__global const float8_packed *)(out0 + (i0 * n1 + i1));
        float8 t38 = t2 / (float8)(t37);
        *(__global float8_packed *)(out0 + (i0 * n1 + i1)) = t38;
      }
      for (size_t i1 = end1; i1 < n1; ++i1) {
        float t39 = out0[(i0 * n1 + i1)];
        float t40 = t39 / t37;
        out0[(i0 * n1 + i1)] = t40;
      }
    }
}

