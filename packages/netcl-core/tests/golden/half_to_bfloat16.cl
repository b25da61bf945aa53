// 1 work-items in groups of 1, numbers (100, 1, 1, 104, 1)
#pragma OPENCL FP_CONTRACT OFF
ushort to_bfloat16(float x) {
  uint bits = as_uint(x);
  uint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (ushort)((x != x) ? ((bits >> 16) | 64u) : rounded);
}
ushort8 to_bfloat16_8(float8 x) {
  uint8 bits = as_uint8(x);
  uint8 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return convert_ushort8((x != x) ? ((bits >> 16) | 64u) : rounded);
}
typedef ushort8 __attribute__((aligned(2))) ushort8_packed;

__kernel __attribute__((vec_type_hint(float16))) void map_2a5e343166(
    __global const half *in0,
    __global const ushort *in1,
    __global ushort *out0,
    __global half *out1,
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
      size_t end1 = start + (stop - start) / 8 * 8;
      for (size_t i0 = start; i0 < end1; i0 += 8) {
        float8 t2 = vload_half8(0, in0 + i0);
        float8 t3 = t2 * (float8)(2.0f);
        float8 t4 = t3;
        float8 t5 = as_float8(convert_uint8(*(__global const ushort8_packed *)(in1 + i0)) << 16);
        float8 t6 = t5;
        *(__global ushort8_packed *)(out0 + i0) = to_bfloat16_8(t4);
        vstore_half8_rte(t6, 0, out1 + i0);
      }
      #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
      for (size_t i0 = end1; i0 < stop; ++i0) {
        float t7 = vload_half(0, in0 + i0);
        float t8 = t7 * 2.0f;
        float t9 = t8;
        float t10 = as_float((uint)in1[i0] << 16);
        float t11 = t10;
        out0[i0] = to_bfloat16(t9);
        vstore_half_rte(t11, 0, out1 + i0);
      }
    }
}

