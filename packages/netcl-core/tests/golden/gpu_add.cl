// 1536 work-items in groups of 64, numbers (6144, 1, 1, 4, 1536)
#pragma OPENCL FP_CONTRACT OFF

__kernel void map_cc700d9633(
    __global const float *in0,
    __global const float *in1,
    __global float *out0,
    const ulong n0_,
    const ulong rows_,
    const ulong rows_each_,
    const ulong chunk_,
    const ulong chunks_) {
    const uint n0 = (uint)n0_;
    const uint rows = (uint)rows_;
    const uint rows_each = (uint)rows_each_;
    const uint chunk = (uint)chunk_;
    const uint chunks = (uint)chunks_;
    uint item = get_global_id(0);
    uint start = item % chunks * chunk;
    uint stop = min(start + chunk, n0);
    uint first = item / chunks * rows_each;
    for (uint row = first; row < min(first + rows_each, rows); ++row) {
      uint end1 = start + (stop - start) / 4 * 4;
      for (uint i0 = start; i0 < end1; i0 += 4) {
        float4 t2 = *(__global const float4 *)(in0 + i0);
        float4 t3 = *(__global const float4 *)(in1 + i0);
        float4 t4 = t2 + t3;
        *(__global float4 *)(out0 + i0) = t4;
      }
      for (uint i0 = end1; i0 < stop; ++i0) {
        float t5 = in0[i0];
        float t6 = in1[i0];
        float t7 = t5 + t6;
        out0[i0] = t7;
      }
    }
}

