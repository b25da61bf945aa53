// 1 work-items in groups of 1, numbers (64, 96, 1, 1, 96, 1)
#pragma OPENCL FP_CONTRACT OFF
typedef float8 __attribute__((aligned(4))) float8_packed;

__kernel __attribute__((vec_type_hint(float16))) void reduce_ca55a4d068(
    __global const float *in0,
    __global float *out0,
    const ulong n0,
    const ulong n1,
    const ulong rows,
    const ulong rows_each,
    const ulong chunk,
    const ulong chunks) {
    size_t item = get_global_id(0);
    size_t start = item % chunks * chunk;
    size_t stop = min(start + chunk, n1);
    size_t first = item / chunks * rows_each;
    for (size_t row = first; row < min(first + rows_each, rows); ++row) {
      size_t end1 = start + (stop - start) / 8 * 8;
      for (size_t strip = start; strip < end1; strip += 2048) {
        float8 acc2[256];
        float8 total3[256];
        float8 error4[256];
        float8 t8[256];
        size_t count = min((size_t)256, (end1 - strip) / 8);
        for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
          acc2[u] = 0.0f;
          total3[u] = 0.0f;
          error4[u] = 0.0f;
        }
        for (size_t block6 = 0; block6 < n0; block6 += 64) {
          size_t stop7 = min(block6 + 64, n0);
          for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
            acc2[u] = 0.0f;
          }
          for (size_t i0 = block6; i0 < stop7; ++i0) {
            for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
              float8 t5 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
              acc2[u] = acc2[u] + t5;
            }
          }
          for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
            { float8 sum = total3[u] + acc2[u], part = sum - total3[u]; error4[u] = error4[u] + ((total3[u] - (sum - part)) + (acc2[u] - part)); total3[u] = sum; }
          }
        }
        for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
          t8[u] = ((error4[u] - error4[u] == 0.0f) ? total3[u] + error4[u] : total3[u]);
          *(__global float8_packed *)(out0 + i1) = t8[u];
        }
      }
      #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
      for (size_t i1 = end1; i1 < stop; ++i1) {
        float acc9 = 0.0f;
        float total10 = 0.0f;
        float error11 = 0.0f;
        for (size_t block13 = 0; block13 < n0; block13 += 64) {
          size_t stop14 = min(block13 + 64, n0);
          acc9 = 0.0f;
          #pragma clang loop vectorize(disable) interleave(disable)
          for (size_t i0 = block13; i0 < stop14; ++i0) {
            float t12 = in0[(i0 * n1 + i1)];
            acc9 = acc9 + t12;
          }
          { float sum = total10 + acc9, part = sum - total10; error11 = error11 + ((total10 - (sum - part)) + (acc9 - part)); total10 = sum; }
        }
        float t15 = ((error11 - error11 == 0.0f) ? total10 + error11 : total10);
        out0[i1] = t15;
      }
    }
}

