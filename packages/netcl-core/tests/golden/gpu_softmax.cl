// 8192 work-items in groups of 128, numbers (64, 96, 64, 1)
#pragma OPENCL FP_CONTRACT OFF

__kernel void rows_194a833d76(
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
      float acc11 = (-INFINITY);
      for (uint i1 = lid * 4; i1 < end1; i1 += 512) {
        float4 t12 = *(__global const float4 *)(in0 + (i0 * n1 + i1));
        acc10 = (((t12 > acc10) | (t12 != t12)) ? t12 : acc10);
      }
      for (uint i1 = end1 + lid; i1 < n1; i1 += 128) {
        float t13 = in0[(i0 * n1 + i1)];
        acc11 = (((t13 > acc11) | (t13 != t13)) ? t13 : acc11);
      }
      float2 t14 = (((acc10.hi > acc10.lo) | (acc10.hi != acc10.hi)) ? acc10.hi : acc10.lo);
      float t15 = (((t14.hi > t14.lo) | (t14.hi != t14.hi)) ? t14.hi : t14.lo);
      float t16 = (((acc11 > t15) | (acc11 != acc11)) ? acc11 : t15);
      scratch_float[lid] = t16;
      barrier(CLK_LOCAL_MEM_FENCE);
      for (uint step = 64; step > 0; step >>= 1) {
        if (lid < step) { scratch_float[lid] = (((scratch_float[lid + step] > scratch_float[lid]) | (scratch_float[lid + step] != scratch_float[lid + step])) ? scratch_float[lid + step] : scratch_float[lid]); }
        barrier(CLK_LOCAL_MEM_FENCE);
      }
      float t17 = scratch_float[0];
      barrier(CLK_LOCAL_MEM_FENCE);
      for (uint block20 = 0; block20 < end1; block20 += 32768) {
        uint stop21 = min(block20 + 32768, end1);
        acc3 = 0.0f;
        for (uint i1 = block20 + lid * 4; i1 < stop21; i1 += 512) {
          float4 t9 = *(__global const float4 *)(in0 + (i0 * n1 + i1));
          float4 t18 = t9 - (float4)(t17);
          float4 t19 = exp(t18);
          acc3 = acc3 + t19;
          *(__global float4 *)(out0 + (i0 * n1 + i1)) = t19;
        }
        { float4 sum = total4 + acc3, part = sum - total4; error5 = error5 + ((total4 - (sum - part)) + (acc3 - part)); total4 = sum; }
      }
      {
        acc6 = 0.0f;
        for (uint i1 = end1 + lid; i1 < n1; i1 += 128) {
          float t22 = in0[(i0 * n1 + i1)];
          float t23 = t22 - t17;
          float t24 = exp(t23);
          acc6 = acc6 + t24;
          out0[(i0 * n1 + i1)] = t24;
        }
        { float sum = total7 + acc6, part = sum - total7; error8 = error8 + ((total7 - (sum - part)) + (acc6 - part)); total7 = sum; }
      }
      float2 t25 = total4.lo + total4.hi;
      float2 t26 = t25 - total4.lo;
      float2 error27 = error5.lo + error5.hi + ((total4.lo - (t25 - t26)) + (total4.hi - t26));
      float t28 = t25.lo + t25.hi;
      float t29 = t28 - t25.lo;
      float error30 = error27.lo + error27.hi + ((t25.lo - (t28 - t29)) + (t25.hi - t29));
      float t31 = t28 + total7;
      float t32 = t31 - t28;
      float error33 = error30 + error8 + ((t28 - (t31 - t32)) + (total7 - t32));
      scratch_float[lid] = t31;
      errors_float[lid] = error33;
      barrier(CLK_LOCAL_MEM_FENCE);
      for (uint step = 64; step > 0; step >>= 1) {
        if (lid < step) { errors_float[lid] += errors_float[lid + step]; { float sum = scratch_float[lid] + scratch_float[lid + step], part = sum - scratch_float[lid]; errors_float[lid] = errors_float[lid] + ((scratch_float[lid] - (sum - part)) + (scratch_float[lid + step] - part)); scratch_float[lid] = sum; } }
        barrier(CLK_LOCAL_MEM_FENCE);
      }
      float t34 = ((errors_float[0] - errors_float[0] == 0.0f) ? scratch_float[0] + errors_float[0] : scratch_float[0]);
      barrier(CLK_LOCAL_MEM_FENCE);
      for (uint i1 = lid * 4; i1 < end1; i1 += 512) {
        float4 t2 = *(__global const float4 *)(out0 + (i0 * n1 + i1));
        float4 t35 = t2 / (float4)(t34);
        *(__global float4 *)(out0 + (i0 * n1 + i1)) = t35;
      }
      for (uint i1 = end1 + lid; i1 < n1; i1 += 128) {
        float t36 = out0[(i0 * n1 + i1)];
        float t37 = t36 / t34;
        out0[(i0 * n1 + i1)] = t37;
      }
    }
}

