// 1536 work-items in groups of 64, numbers (6144, 1, 1, 4, 1536)
#pragma OPENCL FP_CONTRACT OFF

__kernel void map_a9fd4cc63b(
    __global const float *in0,
    __global const float *in1,
    __global float *out0,
    const ulong n0,
    const ulong rows,
    const ulong rows_each,
    const ulong chunk,
    const ulong chunks) {
    size_t item = get_global_id(0);
    size_t start = item % chunks * chunk;
    size_t stop = min(start + chunk, n0);
    size_t first = item / chunks * rows_each;
    for (size_t row = first; row < min(first + rows_each, rows); ++row) {
      size_t end1 = start + (stop - start) / 4 * 4;
      for (size_t i0 = start; i0 < end1; i0 += 4) {
        float4 t2 = vload4(0, in0 + i0);
        float4 t3 = vload4(0, in1 + i0);
        float4 t4 = t2 + t3;
        vstore4(t4, 0, out0 + i0);
      }
      for (size_t i0 = end1; i0 < stop; ++i0) {
        float t5 = in0[i0];
        float t6 = in1[i0];
        float t7 = t5 + t6;
        out0[i0] = t7;
      }
    }
}

