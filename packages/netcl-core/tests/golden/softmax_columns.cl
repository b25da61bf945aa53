// 1 work-items in groups of 1, numbers (64, 96, 1, 1, 96, 1)
#pragma OPENCL FP_CONTRACT OFF
typedef float8 __attribute__((aligned(4))) float8_packed;

__kernel void rows_b4138d435f(
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
        float8 total4[128];
        float8 error5[128];
        float8 acc7[128];
        float8 t13[128];
        size_t count = min((size_t)128, (end1 - strip) / 8);
        for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
          acc3[u] = 0.0f;
          total4[u] = 0.0f;
          error5[u] = 0.0f;
          acc7[u] = (-INFINITY);
        }
        for (size_t i0 = 0; i0 < n0; ++i0) {
          for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
            float8 t8 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
            acc7[u] = (((t8 > acc7[u]) | (t8 != t8)) ? t8 : acc7[u]);
          }
        }
        for (size_t block11 = 0; block11 < n0; block11 += 64) {
          size_t stop12 = min(block11 + 64, n0);
          for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
            acc3[u] = 0.0f;
          }
          for (size_t i0 = block11; i0 < stop12; ++i0) {
            for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
              float8 t6 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
              float8 t9 = t6 - acc7[u];
              float8 t10 = exp(t9);
              acc3[u] = acc3[u] + t10;
              *(__global float8_packed *)(out0 + (i0 * n1 + i1)) = t10;
            }
          }
          for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
            { float8 sum = total4[u] + acc3[u], part = sum - total4[u]; error5[u] = error5[u] + ((total4[u] - (sum - part)) + (acc3[u] - part)); total4[u] = sum; }
          }
        }
        for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
          t13[u] = ((error5[u] - error5[u] == 0.0f) ? total4[u] + error5[u] : total4[u]);
        }
        for (size_t i0 = 0; i0 < n0; ++i0) {
          for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
            float8 t2 = *(__global const float8_packed *)(out0 + (i0 * n1 + i1));
            float8 t14 = t2 / t13[u];
            *(__global float8_packed *)(out0 + (i0 * n1 + i1)) = t14;
          }
        }
      }
      for (size_t i1 = end1; i1 < stop; ++i1) {
        float acc16 = 0.0f;
        float total17 = 0.0f;
        float error18 = 0.0f;
        float acc20 = (-INFINITY);
        for (size_t i0 = 0; i0 < n0; ++i0) {
          float t21 = in0[(i0 * n1 + i1)];
          acc20 = (((t21 > acc20) | (t21 != t21)) ? t21 : acc20);
        }
        for (size_t block24 = 0; block24 < n0; block24 += 64) {
          size_t stop25 = min(block24 + 64, n0);
          acc16 = 0.0f;
          for (size_t i0 = block24; i0 < stop25; ++i0) {
            float t19 = in0[(i0 * n1 + i1)];
            float t22 = t19 - acc20;
            float t23 = (exp((float8)(t22))).s0;
            acc16 = acc16 + t23;
            out0[(i0 * n1 + i1)] = t23;
          }
          { float sum = total17 + acc16, part = sum - total17; error18 = error18 + ((total17 - (sum - part)) + (acc16 - part)); total17 = sum; }
        }
        float t26 = ((error18 - error18 == 0.0f) ? total17 + error18 : total17);
        for (size_t i0 = 0; i0 < n0; ++i0) {
          float t15 = out0[(i0 * n1 + i1)];
          float t27 = t15 / t26;
          out0[(i0 * n1 + i1)] = t27;
        }
      }
    }
}

