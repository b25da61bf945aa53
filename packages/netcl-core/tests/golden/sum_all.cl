// 8 work-items in groups of 1, numbers (1024, 1024, 64, 8, 64, 16)
#pragma OPENCL FP_CONTRACT OFF

__kernel void rows_fd90ca448e(
    __global const float *in0,
    __global float *out0,
    const ulong n0,
    const ulong n1,
    const ulong rows,
    const ulong rows_each,
    const ulong parts,
    const ulong part_size) {
    size_t item = get_global_id(0);
    size_t first = item * rows_each;
    for (size_t row = first; row < min(first + rows_each, rows); ++row) {
      size_t part = row;
      size_t low = part * part_size;
      size_t high = min(low + part_size, n0);
      float8 acc1 = 0.0f;
      float acc2 = 0.0f;
      for (size_t i0 = low; i0 < high; ++i0) {
        size_t end3 = n1 / 8 * 8;
        for (size_t i1 = 0; i1 < end3; i1 += 8) {
          float8 t4 = vload8(0, in0 + (i0 * n1 + i1));
          acc1 = acc1 + t4;
        }
        for (size_t i1 = end3; i1 < n1; ++i1) {
          float t5 = in0[(i0 * n1 + i1)];
          acc2 = acc2 + t5;
        }
      }
      float4 t6 = acc1.lo + acc1.hi;
      float2 t7 = t6.lo + t6.hi;
      float t8 = t7.lo + t7.hi;
      float t9 = t8 + acc2;
      out0[part] = t9;
    }
}


// 1 work-items in groups of 1, numbers (64, 1, 1)
#pragma OPENCL FP_CONTRACT OFF

__kernel void reduce_b19b2242fb(
    __global const float *in0,
    __global float *out0,
    const ulong n0,
    const ulong rows,
    const ulong rows_each) {
    float8 acc1 = 0.0f;
    float acc2 = 0.0f;
    size_t end3 = n0 / 8 * 8;
    for (size_t i0 = 0; i0 < end3; i0 += 8) {
      float8 t4 = vload8(0, in0 + i0);
      acc1 = acc1 + t4;
    }
    for (size_t i0 = end3; i0 < n0; ++i0) {
      float t5 = in0[i0];
      acc2 = acc2 + t5;
    }
    float4 t6 = acc1.lo + acc1.hi;
    float2 t7 = t6.lo + t6.hi;
    float t8 = t7.lo + t7.hi;
    float t9 = t8 + acc2;
    size_t item = get_global_id(0);
    size_t first = item * rows_each;
    for (size_t row = first; row < min(first + rows_each, rows); ++row) {
      out0[0] = t9;
    }
}

