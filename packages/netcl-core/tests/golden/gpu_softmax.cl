// 8192 work-items in groups of 128, numbers (64, 96, 64, 1)
#pragma OPENCL FP_CONTRACT OFF

__kernel void rows_05b8f1e621(
    __global const float *in0,
    __global float *out0,
    const ulong n0_,
    const ulong n1_,
    const ulong rows_,
    const ulong rows_each_) {
    const uint n0 = (uint)n0_;
    const uint n1 = (uint)n1_;
    const uint rows = (uint)rows_;
    const uint rows_each = (uint)rows_each_;
    __local float scratch_float[128];
    __local float errors_float[128];
    uint lid = get_local_id(0);
    uint first = get_group_id(0) * rows_each;
    for (uint row = first; row < min(first + rows_each, rows); ++row) {
      uint i0 = row;
      uint end1 = n1 / 4 * 4;
      float4 acc3 = 0.0f;
      float4 total4 = 0.0f;
      float4 error5 = 0.0f;
      float acc6 = 0.0f;
      float total7 = 0.0f;
      float error8 = 0.0f;
      float4 acc10 = (-INFINITY);
      int4 nan11 = 0;
      float acc12 = (-INFINITY);
      int nan13 = 0;
      for (uint i1 = lid * 4; i1 < end1; i1 += 512) {
        float4 t14 = *(__global const float4 *)(in0 + (i0 * n1 + i1));
        acc10 = (t14 > acc10) ? t14 : acc10;
        nan11 = nan11 | (t14 != t14);
      }
      for (uint i1 = end1 + lid; i1 < n1; i1 += 128) {
        float t15 = in0[(i0 * n1 + i1)];
        acc12 = (t15 > acc12) ? t15 : acc12;
        nan13 = nan13 | (t15 != t15);
      }
      acc10 = nan11 ? (float4)(NAN) : acc10;
      acc12 = nan13 ? NAN : acc12;
      float2 t16 = (((acc10.hi > acc10.lo) | (acc10.hi != acc10.hi)) ? acc10.hi : acc10.lo);
      float t17 = (((t16.hi > t16.lo) | (t16.hi != t16.hi)) ? t16.hi : t16.lo);
      float t18 = (((acc12 > t17) | (acc12 != acc12)) ? acc12 : t17);
      scratch_float[lid] = t18;
      barrier(CLK_LOCAL_MEM_FENCE);
      for (uint step = 64; step > 0; step >>= 1) {
        if (lid < step) { scratch_float[lid] = (((scratch_float[lid + step] > scratch_float[lid]) | (scratch_float[lid + step] != scratch_float[lid + step])) ? scratch_float[lid + step] : scratch_float[lid]); }
        barrier(CLK_LOCAL_MEM_FENCE);
      }
      float t19 = scratch_float[0];
      barrier(CLK_LOCAL_MEM_FENCE);
      for (uint block22 = 0; block22 < end1; block22 += 32768) {
        uint stop23 = min(block22 + 32768, end1);
        acc3 = 0.0f;
        for (uint i1 = block22 + lid * 4; i1 < stop23; i1 += 512) {
          float4 t9 = *(__global const float4 *)(in0 + (i0 * n1 + i1));
          float4 t20 = t9 - (float4)(t19);
          float4 t21 = exp(t20);
          acc3 = acc3 + t21;
          *(__global float4 *)(out0 + (i0 * n1 + i1)) = t21;
        }
        { float4 sum = total4 + acc3, part = sum - total4; error5 = error5 + ((total4 - (sum - part)) + (acc3 - part)); total4 = sum; }
      }
      {
        acc6 = 0.0f;
        for (uint i1 = end1 + lid; i1 < n1; i1 += 128) {
          float t24 = in0[(i0 * n1 + i1)];
          float t25 = t24 - t19;
          float t26 = exp(t25);
          acc6 = acc6 + t26;
          out0[(i0 * n1 + i1)] = t26;
        }
        { float sum = total7 + acc6, part = sum - total7; error8 = error8 + ((total7 - (sum - part)) + (acc6 - part)); total7 = sum; }
      }
      float2 t27 = total4.lo + total4.hi;
      float2 t28 = t27 - total4.lo;
      float2 error29 = error5.lo + error5.hi + ((total4.lo - (t27 - t28)) + (total4.hi - t28));
      float t30 = t27.lo + t27.hi;
      float t31 = t30 - t27.lo;
      float error32 = error29.lo + error29.hi + ((t27.lo - (t30 - t31)) + (t27.hi - t31));
      float t33 = t30 + total7;
      float t34 = t33 - t30;
      float error35 = error32 + error8 + ((t30 - (t33 - t34)) + (total7 - t34));
      scratch_float[lid] = t33;
      errors_float[lid] = error35;
      barrier(CLK_LOCAL_MEM_FENCE);
      for (uint step = 64; step > 0; step >>= 1) {
        if (lid < step) { errors_float[lid] += errors_float[lid + step]; { float sum = scratch_float[lid] + scratch_float[lid + step], part = sum - scratch_float[lid]; errors_float[lid] = errors_float[lid] + ((scratch_float[lid] - (sum - part)) + (scratch_float[lid + step] - part)); scratch_float[lid] = sum; } }
        barrier(CLK_LOCAL_MEM_FENCE);
      }
      float t36 = ((errors_float[0] - errors_float[0] == 0.0f) ? scratch_float[0] + errors_float[0] : scratch_float[0]);
      barrier(CLK_LOCAL_MEM_FENCE);
      for (uint i1 = lid * 4; i1 < end1; i1 += 512) {
        float4 t2 = *(__global const float4 *)(out0 + (i0 * n1 + i1));
        float4 t37 = t2 / (float4)(t36);
        *(__global float4 *)(out0 + (i0 * n1 + i1)) = t37;
      }
      for (uint i1 = end1 + lid; i1 < n1; i1 += 128) {
        float t38 = out0[(i0 * n1 + i1)];
        float t39 = t38 / t36;
        out0[(i0 * n1 + i1)] = t39;
      }
    }
}

