// 1 work-items in groups of 1, numbers (8, 4, 96, 4, 4)
#pragma OPENCL FP_CONTRACT OFF

__kernel void rows_21e7a26a56(
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
      float acc4 = 0.0f;
      for (size_t i0 = 0; i0 < n0; ++i0) {
        size_t end5 = n2 / 8 * 8;
        for (size_t i2 = 0; i2 < end5; i2 += 8) {
          float8 t6 = vload8(0, in0 + ((i0 * n1 + i1) * n2 + i2));
          acc3 = acc3 + t6;
        }
        for (size_t i2 = end5; i2 < n2; ++i2) {
          float t7 = in0[((i0 * n1 + i1) * n2 + i2)];
          acc4 = acc4 + t7;
        }
      }
      float4 t8 = acc3.lo + acc3.hi;
      float2 t9 = t8.lo + t8.hi;
      float t10 = t9.lo + t9.hi;
      float t11 = t10 + acc4;
      float t12 = t11 / s_size_0_2_float;
      float8 acc14 = 0.0f;
      float acc15 = 0.0f;
      for (size_t i0 = 0; i0 < n0; ++i0) {
        size_t end16 = n2 / 8 * 8;
        for (size_t i2 = 0; i2 < end16; i2 += 8) {
          float8 t17 = vload8(0, in0 + ((i0 * n1 + i1) * n2 + i2));
          float8 t18 = t17 - (float8)(t12);
          float8 t19 = t18 * t18;
          acc14 = acc14 + t19;
        }
        for (size_t i2 = end16; i2 < n2; ++i2) {
          float t20 = in0[((i0 * n1 + i1) * n2 + i2)];
          float t21 = t20 - t12;
          float t22 = t21 * t21;
          acc15 = acc15 + t22;
        }
      }
      float4 t23 = acc14.lo + acc14.hi;
      float2 t24 = t23.lo + t23.hi;
      float t25 = t24.lo + t24.hi;
      float t26 = t25 + acc15;
      float t27 = t26 / s_size_0_2_float;
      float t28 = t27 + 1e-05f;
      float t29 = rsqrt(t28);
      for (size_t i0 = 0; i0 < n0; ++i0) {
        size_t end1 = n2 / 8 * 8;
        for (size_t i2 = 0; i2 < end1; i2 += 8) {
          float8 t2 = vload8(0, in0 + ((i0 * n1 + i1) * n2 + i2));
          float8 t13 = t2 - (float8)(t12);
          float8 t30 = t13 * (float8)(t29);
          vstore8(t30, 0, out0 + ((i0 * n1 + i1) * n2 + i2));
        }
        for (size_t i2 = end1; i2 < n2; ++i2) {
          float t31 = in0[((i0 * n1 + i1) * n2 + i2)];
          float t32 = t31 - t12;
          float t33 = t32 * t29;
          out0[((i0 * n1 + i1) * n2 + i2)] = t33;
        }
      }
      out1[i1] = t12;
      out2[i1] = t27;
    }
}

