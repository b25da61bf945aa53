// 2048 work-items in groups of 32, numbers (64, 96, 64, 1)
#pragma OPENCL FP_CONTRACT OFF

__kernel void rows_0f169387b2(
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
    __local float scratch0_float[32];
    __local float errors0_float[32];
    uint lid = get_local_id(0);
    uint item = get_group_id(0);
    uint first = item * rows_each;
    for (uint row = first; row < min(first + rows_each, rows); ++row) {
      uint i0 = row;
      float4 acc2 = 0.0f;
      float4 total3 = 0.0f;
      float4 error4 = 0.0f;
      float4 acc6 = (-INFINITY);
      int4 nan7 = 0;
      if (lid * 4 < n1) {
        uint i1 = lid * 4;
        float4 t8 = *(__global const float4 *)(in0 + (i0 * n1 + i1));
        acc6 = (t8 > acc6) ? t8 : acc6;
        nan7 = nan7 | (t8 != t8);
      }
      acc6 = nan7 ? (float4)(NAN) : acc6;
      float2 t9 = (((acc6.hi > acc6.lo) | (acc6.hi != acc6.hi)) ? acc6.hi : acc6.lo);
      float t10 = (((t9.hi > t9.lo) | (t9.hi != t9.hi)) ? t9.hi : t9.lo);
      scratch0_float[lid] = t10;
      barrier(CLK_LOCAL_MEM_FENCE);
      for (uint step = 16; step > 0; step >>= 1) {
        if (lid < step) {
          scratch0_float[lid] = (((scratch0_float[lid + step] > scratch0_float[lid]) | (scratch0_float[lid + step] != scratch0_float[lid + step])) ? scratch0_float[lid + step] : scratch0_float[lid]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
      }
      float t11 = scratch0_float[0];
      barrier(CLK_LOCAL_MEM_FENCE);
      if (lid * 4 < n1) {
        uint i1 = lid * 4;
        acc2 = 0.0f;
        float4 t5 = *(__global const float4 *)(in0 + (i0 * n1 + i1));
        float4 t12 = t5 - (float4)(t11);
        float4 t13 = exp(t12);
        acc2 = acc2 + t13;
        *(__global float4 *)(out0 + (i0 * n1 + i1)) = t13;
        { float4 sum = total3 + acc2, part = sum - total3; error4 = error4 + ((total3 - (sum - part)) + (acc2 - part)); total3 = sum; }
      }
      float2 t14 = total3.lo + total3.hi;
      float2 t15 = t14 - total3.lo;
      float2 error16 = error4.lo + error4.hi + ((total3.lo - (t14 - t15)) + (total3.hi - t15));
      float t17 = t14.lo + t14.hi;
      float t18 = t17 - t14.lo;
      float error19 = error16.lo + error16.hi + ((t14.lo - (t17 - t18)) + (t14.hi - t18));
      scratch0_float[lid] = t17;
      errors0_float[lid] = error19;
      barrier(CLK_LOCAL_MEM_FENCE);
      for (uint step = 16; step > 0; step >>= 1) {
        if (lid < step) {
          errors0_float[lid] += errors0_float[lid + step];
          { float sum = scratch0_float[lid] + scratch0_float[lid + step], part = sum - scratch0_float[lid]; errors0_float[lid] = errors0_float[lid] + ((scratch0_float[lid] - (sum - part)) + (scratch0_float[lid + step] - part)); scratch0_float[lid] = sum; }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
      }
      float t20 = scratch0_float[0];
      float error21 = errors0_float[0];
      barrier(CLK_LOCAL_MEM_FENCE);
      float t22 = ((error21 - error21 == 0.0f) ? t20 + error21 : t20);
      if (lid * 4 < n1) {
        uint i1 = lid * 4;
        float4 t1 = *(__global const float4 *)(out0 + (i0 * n1 + i1));
        float4 t23 = t1 / (float4)(t22);
        *(__global float4 *)(out0 + (i0 * n1 + i1)) = t23;
      }
    }
}

