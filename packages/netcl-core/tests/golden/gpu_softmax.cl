// 8192 work-items in groups of 128, numbers (64, 96, 64, 1)
#pragma OPENCL FP_CONTRACT OFF

__kernel void rows_27b0cdbbd6(
    __global const float *in0,
    __global float *out0,
    const ulong n0,
    const ulong n1,
    const ulong rows,
    const ulong rows_each) {
    __local float scratch_float[128];
    uint lid = get_local_id(0);
    size_t first = get_group_id(0) * rows_each;
    for (size_t row = first; row < min(first + rows_each, rows); ++row) {
      size_t i0 = row;
      size_t end1 = n1 / 4 * 4;
      float4 acc3 = (-INFINITY);
      float acc4 = (-INFINITY);
      for (size_t i1 = lid * 4; i1 < end1; i1 += 512) {
        float4 t5 = vload4(0, in0 + (i0 * n1 + i1));
        acc3 = (((t5 > acc3) | (t5 != t5)) ? t5 : acc3);
      }
      for (size_t i1 = end1 + lid; i1 < n1; i1 += 128) {
        float t6 = in0[(i0 * n1 + i1)];
        acc4 = (((t6 > acc4) | (t6 != t6)) ? t6 : acc4);
      }
      float2 t7 = (((acc3.hi > acc3.lo) | (acc3.hi != acc3.hi)) ? acc3.hi : acc3.lo);
      float t8 = (((t7.hi > t7.lo) | (t7.hi != t7.hi)) ? t7.hi : t7.lo);
      float t9 = (((acc4 > t8) | (acc4 != acc4)) ? acc4 : t8);
      scratch_float[lid] = t9;
      barrier(CLK_LOCAL_MEM_FENCE);
      for (uint step = 64; step > 0; step >>= 1) {
        if (lid < step) scratch_float[lid] = (((scratch_float[lid + step] > scratch_float[lid]) | (scratch_float[lid + step] != scratch_float[lid + step])) ? scratch_float[lid + step] : scratch_float[lid]);
        barrier(CLK_LOCAL_MEM_FENCE);
      }
      float t10 = scratch_float[0];
      barrier(CLK_LOCAL_MEM_FENCE);
      float4 acc13 = 0.0f;
      float acc14 = 0.0f;
      for (size_t i1 = lid * 4; i1 < end1; i1 += 512) {
        float4 t15 = vload4(0, in0 + (i0 * n1 + i1));
        float4 t16 = t15 - (float4)(t10);
        float4 t17 = exp(t16);
        acc13 = acc13 + t17;
      }
      for (size_t i1 = end1 + lid; i1 < n1; i1 += 128) {
        float t18 = in0[(i0 * n1 + i1)];
        float t19 = t18 - t10;
        float t20 = exp(t19);
        acc14 = acc14 + t20;
      }
      float2 t21 = acc13.lo + acc13.hi;
      float t22 = t21.lo + t21.hi;
      float t23 = t22 + acc14;
      scratch_float[lid] = t23;
      barrier(CLK_LOCAL_MEM_FENCE);
      for (uint step = 64; step > 0; step >>= 1) {
        if (lid < step) scratch_float[lid] = scratch_float[lid] + scratch_float[lid + step];
        barrier(CLK_LOCAL_MEM_FENCE);
      }
      float t24 = scratch_float[0];
      barrier(CLK_LOCAL_MEM_FENCE);
      for (size_t i1 = lid * 4; i1 < end1; i1 += 512) {
        float4 t2 = vload4(0, in0 + (i0 * n1 + i1));
        float4 t11 = t2 - (float4)(t10);
        float4 t12 = exp(t11);
        float4 t25 = t12 / (float4)(t24);
        vstore4(t25, 0, out0 + (i0 * n1 + i1));
      }
      for (size_t i1 = end1 + lid; i1 < n1; i1 += 128) {
        float t26 = in0[(i0 * n1 + i1)];
        float t27 = t26 - t10;
        float t28 = exp(t27);
        float t29 = t28 / t24;
        out0[(i0 * n1 + i1)] = t29;
      }
    }
}

