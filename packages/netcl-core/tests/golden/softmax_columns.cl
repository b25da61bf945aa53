// 1 work-items in groups of 1, numbers (64, 96, 1, 1, 96, 1)
#pragma OPENCL FP_CONTRACT OFF
typedef float8 __attribute__((aligned(4))) float8_packed;

__kernel void rows_9aa6dbe0b0(
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
      for (size_t strip = start; strip < end1; strip += 1024) {
        float8 acc3[128];
        float8 acc7[128];
        float8 total8[128];
        float8 error9[128];
        float8 t15[128];
        size_t count = min((size_t)128, (end1 - strip) / 8);
        for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
          acc3[u] = (-INFINITY);
        }
        for (size_t i0 = 0; i0 < n0; ++i0) {
          for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
            float8 t4 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
            acc3[u] = (((t4 > acc3[u]) | (t4 != t4)) ? t4 : acc3[u]);
          }
        }
        for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
          acc7[u] = 0.0f;
          total8[u] = 0.0f;
          error9[u] = 0.0f;
        }
        for (size_t block13 = 0; block13 < n0; block13 += 64) {
          size_t stop14 = min(block13 + 64, n0);
          for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
            acc7[u] = 0.0f;
          }
          for (size_t i0 = block13; i0 < stop14; ++i0) {
            for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
              float8 t10 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
              float8 t11 = t10 - acc3[u];
              float8 t12 = exp(t11);
              acc7[u] = acc7[u] + t12;
            }
          }
          for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
            { float8 sum = total8[u] + acc7[u], part = sum - total8[u]; error9[u] = error9[u] + ((total8[u] - (sum - part)) + (acc7[u] - part)); total8[u] = sum; }
          }
        }
        for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
          t15[u] = ((error9[u] - error9[u] == 0.0f) ? total8[u] + error9[u] : total8[u]);
        }
        for (size_t i0 = 0; i0 < n0; ++i0) {
          for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
            float8 t2 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
            float8 t5 = t2 - acc3[u];
            float8 t6 = exp(t5);
            float8 t16 = t6 / t15[u];
            *(__global float8_packed *)(out0 + (i0 * n1 + i1)) = t16;
          }
        }
      }
      for (size_t i1 = end1; i1 < stop; ++i1) {
        float acc18 = (-INFINITY);
        for (size_t i0 = 0; i0 < n0; ++i0) {
          float t19 = in0[(i0 * n1 + i1)];
          acc18 = (((t19 > acc18) | (t19 != t19)) ? t19 : acc18);
        }
        float acc22 = 0.0f;
        float total23 = 0.0f;
        float error24 = 0.0f;
        for (size_t block28 = 0; block28 < n0; block28 += 64) {
          size_t stop29 = min(block28 + 64, n0);
          acc22 = 0.0f;
          for (size_t i0 = block28; i0 < stop29; ++i0) {
            float t25 = in0[(i0 * n1 + i1)];
            float t26 = t25 - acc18;
            float t27 = (exp((float8)(t26))).s0;
            acc22 = acc22 + t27;
          }
          { float sum = total23 + acc22, part = sum - total23; error24 = error24 + ((total23 - (sum - part)) + (acc22 - part)); total23 = sum; }
        }
        float t30 = ((error24 - error24 == 0.0f) ? total23 + error24 : total23);
        for (size_t i0 = 0; i0 < n0; ++i0) {
          float t17 = in0[(i0 * n1 + i1)];
          float t20 = t17 - acc18;
          float t21 = (exp((float8)(t20))).s0;
          float t31 = t21 / t30;
          out0[(i0 * n1 + i1)] = t31;
        }
      }
    }
}

