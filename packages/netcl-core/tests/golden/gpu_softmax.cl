// 8192 work-items in groups of 128, numbers (64, 96, 64, 1)
#pragma OPENCL FP_CONTRACT OFF

__kernel void rows_50766961ae(
    __global const float *in0,
    __global float *out0,
    const ulong n0,
    const ulong n1,
    const ulong rows,
    const ulong rows_each) {
    __local float scratch_float[128];
    __local float errors_float[128];
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
        if (lid < step) { scratch_float[lid] = (((scratch_float[lid + step] > scratch_float[lid]) | (scratch_float[lid + step] != scratch_float[lid + step])) ? scratch_float[lid + step] : scratch_float[lid]); }
        barrier(CLK_LOCAL_MEM_FENCE);
      }
      float t10 = scratch_float[0];
      barrier(CLK_LOCAL_MEM_FENCE);
      float4 acc13 = 0.0f;
      float4 total14 = 0.0f;
      float4 error15 = 0.0f;
      float acc16 = 0.0f;
      float total17 = 0.0f;
      float error18 = 0.0f;
      for (size_t block22 = 0; block22 < end1; block22 += 32768) {
        size_t stop23 = min(block22 + 32768, end1);
        acc13 = 0.0f;
        for (size_t i1 = block22 + lid * 4; i1 < stop23; i1 += 512) {
          float4 t19 = vload4(0, in0 + (i0 * n1 + i1));
          float4 t20 = t19 - (float4)(t10);
          float4 t21 = exp(t20);
          acc13 = acc13 + t21;
        }
        { float4 sum = total14 + acc13, part = sum - total14; error15 = error15 + ((total14 - (sum - part)) + (acc13 - part)); total14 = sum; }
      }
      {
        acc16 = 0.0f;
        for (size_t i1 = end1 + lid; i1 < n1; i1 += 128) {
          float t24 = in0[(i0 * n1 + i1)];
          float t25 = t24 - t10;
          float t26 = exp(t25);
          acc16 = acc16 + t26;
        }
        { float sum = total17 + acc16, part = sum - total17; error18 = error18 + ((total17 - (sum - part)) + (acc16 - part)); total17 = sum; }
      }
      float2 t27 = total14.lo + total14.hi;
      float2 t28 = t27 - total14.lo;
      float2 error29 = error15.lo + error15.hi + ((total14.lo - (t27 - t28)) + (total14.hi - t28));
      float t30 = t27.lo + t27.hi;
      float t31 = t30 - t27.lo;
      float error32 = error29.lo + error29.hi + ((t27.lo - (t30 - t31)) + (t27.hi - t31));
      float t33 = t30 + total17;
      float t34 = t33 - t30;
      float error35 = error32 + error18 + ((t30 - (t33 - t34)) + (total17 - t34));
      scratch_float[lid] = t33;
      errors_float[lid] = error35;
      barrier(CLK_LOCAL_MEM_FENCE);
      for (uint step = 64; step > 0; step >>= 1) {
        if (lid < step) { errors_float[lid] += errors_float[lid + step]; { float sum = scratch_float[lid] + scratch_float[lid + step], part = sum - scratch_float[lid]; errors_float[lid] = errors_float[lid] + ((scratch_float[lid] - (sum - part)) + (scratch_float[lid + step] - part)); scratch_float[lid] = sum; } }
        barrier(CLK_LOCAL_MEM_FENCE);
      }
      float t36 = ((errors_float[0] - errors_float[0] == 0.0f) ? scratch_float[0] + errors_float[0] : scratch_float[0]);
      barrier(CLK_LOCAL_MEM_FENCE);
      for (size_t i1 = lid * 4; i1 < end1; i1 += 512) {
        float4 t2 = vload4(0, in0 + (i0 * n1 + i1));
        float4 t11 = t2 - (float4)(t10);
        float4 t12 = exp(t11);
        float4 t37 = t12 / (float4)(t36);
        vstore4(t37, 0, out0 + (i0 * n1 + i1));
      }
      for (size_t i1 = end1 + lid; i1 < n1; i1 += 128) {
        float t38 = in0[(i0 * n1 + i1)];
        float t39 = t38 - t10;
        float t40 = exp(t39);
        float t41 = t40 / t36;
        out0[(i0 * n1 + i1)] = t41;
      }
    }
}

