// 1536 work-items in groups of 128, numbers (6144, 512)
#pragma OPENCL FP_CONTRACT OFF

__kernel void map_52d16a7da2(
    __global const float *in0,
    __global const float *in1,
    __global float *out0,
    const ulong n0_,
    const ulong chunk_) {
    const uint n0 = (uint)n0_;
    const uint chunk = (uint)chunk_;
    uint lid = get_local_id(0);
    uint item = get_group_id(0);
    uint low = item * chunk;
    uint high = min(low + chunk, n0);
    uint end1 = low + (high - low) / 4 * 4;
    for (uint i0 = low + lid * 4; i0 < end1; i0 += 512) {
      float4 t2 = *(__global const float4 *)(in0 + i0);
      float4 t3 = *(__global const float4 *)(in1 + i0);
      float4 t4 = t2 + t3;
      *(__global float4 *)(out0 + i0) = t4;
    }
    for (uint i0 = end1 + lid; i0 < high; i0 += 128) {
      float t5 = in0[i0];
      float t6 = in1[i0];
      float t7 = t5 + t6;
      out0[i0] = t7;
    }
}

