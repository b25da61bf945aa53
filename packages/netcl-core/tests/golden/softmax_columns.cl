// 1 work-items in groups of 1, numbers (64, 96, 1, 1, 96, 1)
#pragma OPENCL FP_CONTRACT OFF
typedef float8 __attribute__((aligned(4))) float8_packed;

__kernel __attribute__((vec_type_hint(float16))) void rows_84cda41695(
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
        int8 nan8[128];
        float8 t14[128];
        size_t count = min((size_t)128, (end1 - strip) / 8);
        for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
          acc3[u] = 0.0f;
          total4[u] = 0.0f;
          error5[u] = 0.0f;
          acc7[u] = (-INFINITY);
          nan8[u] = 0;
        }
        for (size_t i0 = 0; i0 < n0; ++i0) {
          for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
            float8 t9 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
            acc7[u] = (t9 > acc7[u]) ? t9 : acc7[u];
            nan8[u] = nan8[u] | (t9 != t9);
          }
        }
        for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
          acc7[u] = nan8[u] ? (float8)(NAN) : acc7[u];
        }
        for (size_t block12 = 0; block12 < n0; block12 += 64) {
          size_t stop13 = min(block12 + 64, n0);
          for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
            acc3[u] = 0.0f;
          }
          for (size_t i0 = block12; i0 < stop13; ++i0) {
            for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
              float8 t6 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
              float8 t10 = t6 - acc7[u];
              float8 t11 = exp(t10);
              acc3[u] = acc3[u] + t11;
              *(__global float8_packed *)(out0 + (i0 * n1 + i1)) = t11;
            }
          }
          for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
            { float8 sum = total4[u] + acc3[u], part = sum - total4[u]; error5[u] = error5[u] + ((total4[u] - (sum - part)) + (acc3[u] - part)); total4[u] = sum; }
          }
        }
        for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
          t14[u] = ((error5[u] - error5[u] == 0.0f) ? total4[u] + error5[u] : total4[u]);
        }
        for (size_t i0 = 0; i0 < n0; ++i0) {
          for (size_t u = 0, i1 = strip; u < count; ++u, i1 += 8) {
            float8 t2 = *(__global const float8_packed *)(out0 + (i0 * n1 + i1));
            float8 t15 = t2 / t14[u];
            *(__global float8_packed *)(out0 + (i0 * n1 + i1)) = t15;
          }
        }
      }
      #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
      for (size_t i1 = end1; i1 < stop; ++i1) {
        float acc17 = 0.0f;
        float total18 = 0.0f;
        float error19 = 0.0f;
        float acc21 = (-INFINITY);
        int nan22 = 0;
        for (size_t i0 = 0; i0 < n0; ++i0) {
          float t23 = in0[(i0 * n1 + i1)];
          acc21 = (t23 > acc21) ? t23 : acc21;
          nan22 = nan22 | (t23 != t23);
        }
        acc21 = nan22 ? NAN : acc21;
        for (size_t block26 = 0; block26 < n0; block26 += 64) {
          size_t stop27 = min(block26 + 64, n0);
          acc17 = 0.0f;
          #pragma clang loop vectorize(disable) interleave(disable)
          for (size_t i0 = block26; i0 < stop27; ++i0) {
            float t20 = in0[(i0 * n1 + i1)];
            float t24 = t20 - acc21;
            float t25 = (exp((float8)(t24))).s0;
            acc17 = acc17 + t25;
            out0[(i0 * n1 + i1)] = t25;
          }
          { float sum = total18 + acc17, part = sum - total18; error19 = error19 + ((total18 - (sum - part)) + (acc17 - part)); total18 = sum; }
        }
        float t28 = ((error19 - error19 == 0.0f) ? total18 + error19 : total18);
        for (size_t i0 = 0; i0 < n0; ++i0) {
          float t16 = out0[(i0 * n1 + i1)];
          float t29 = t16 / t28;
          out0[(i0 * n1 + i1)] = t29;
        }
      }
    }
}

