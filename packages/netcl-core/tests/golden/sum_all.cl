// 8 work-items in groups of 1, numbers (1024, 1024, 8, 1, 8, 128)
#pragma OPENCL FP_CONTRACT OFF
typedef float8 __attribute__((aligned(4))) float8_packed;

__kernel __attribute__((vec_type_hint(float16))) void rows_8cf059795a(
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
      float8 total2 = 0.0f;
      float8 error3 = 0.0f;
      float acc4 = 0.0f;
      float total5 = 0.0f;
      float error6 = 0.0f;
      for (size_t i0 = low; i0 < high; ++i0) {
        size_t end7 = n1 / 8 * 8;
        for (size_t block9 = 0; block9 < end7; block9 += 512) {
          size_t stop10 = min(block9 + 512, end7);
          acc1 = 0.0f;
          for (size_t i1 = block9; i1 < stop10; i1 += 8) {
            float8 t8 = *(__global const float8_packed *)(in0 + (i0 * n1 + i1));
            acc1 = acc1 + t8;
          }
          { float8 sum = total2 + acc1, part = sum - total2; error3 = error3 + ((total2 - (sum - part)) + (acc1 - part)); total2 = sum; }
        }
        {
          acc4 = 0.0f;
          #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
          for (size_t i1 = end7; i1 < n1; ++i1) {
            float t11 = in0[(i0 * n1 + i1)];
            acc4 = acc4 + t11;
          }
          { float sum = total5 + acc4, part = sum - total5; error6 = error6 + ((total5 - (sum - part)) + (acc4 - part)); total5 = sum; }
        }
      }
      float4 t12 = total2.lo + total2.hi;
      float4 t13 = t12 - total2.lo;
      float4 error14 = error3.lo + error3.hi + ((total2.lo - (t12 - t13)) + (total2.hi - t13));
      float2 t15 = t12.lo + t12.hi;
      float2 t16 = t15 - t12.lo;
      float2 error17 = error14.lo + error14.hi + ((t12.lo - (t15 - t16)) + (t12.hi - t16));
      float t18 = t15.lo + t15.hi;
      float t19 = t18 - t15.lo;
      float error20 = error17.lo + error17.hi + ((t15.lo - (t18 - t19)) + (t15.hi - t19));
      float t21 = t18 + total5;
      float t22 = t21 - t18;
      float error23 = error20 + error6 + ((t18 - (t21 - t22)) + (total5 - t22));
      float t24 = ((error23 - error23 == 0.0f) ? t21 + error23 : t21);
      out0[part] = t24;
    }
}


// 1 work-items in groups of 1, numbers (8, 1, 1)
#pragma OPENCL FP_CONTRACT OFF
typedef float8 __attribute__((aligned(4))) float8_packed;

__kernel __attribute__((vec_type_hint(float16))) void reduce_36a5cdee86(
    __global const float *in0,
    __global float *out0,
    const ulong n0,
    const ulong rows,
    const ulong rows_each) {
    float8 acc1 = 0.0f;
    float8 total2 = 0.0f;
    float8 error3 = 0.0f;
    float acc4 = 0.0f;
    float total5 = 0.0f;
    float error6 = 0.0f;
    size_t end7 = n0 / 8 * 8;
    for (size_t block9 = 0; block9 < end7; block9 += 8) {
      size_t stop10 = min(block9 + 8, end7);
      acc1 = 0.0f;
      for (size_t i0 = block9; i0 < stop10; i0 += 8) {
        float8 t8 = *(__global const float8_packed *)(in0 + i0);
        acc1 = acc1 + t8;
      }
      { float8 sum = total2 + acc1, part = sum - total2; error3 = error3 + ((total2 - (sum - part)) + (acc1 - part)); total2 = sum; }
    }
    {
      acc4 = 0.0f;
      #pragma clang loop vectorize(disable) interleave(disable) unroll(disable)
      for (size_t i0 = end7; i0 < n0; ++i0) {
        float t11 = in0[i0];
        acc4 = acc4 + t11;
      }
      { float sum = total5 + acc4, part = sum - total5; error6 = error6 + ((total5 - (sum - part)) + (acc4 - part)); total5 = sum; }
    }
    float4 t12 = total2.lo + total2.hi;
    float4 t13 = t12 - total2.lo;
    float4 error14 = error3.lo + error3.hi + ((total2.lo - (t12 - t13)) + (total2.hi - t13));
    float2 t15 = t12.lo + t12.hi;
    float2 t16 = t15 - t12.lo;
    float2 error17 = error14.lo + error14.hi + ((t12.lo - (t15 - t16)) + (t12.hi - t16));
    float t18 = t15.lo + t15.hi;
    float t19 = t18 - t15.lo;
    float error20 = error17.lo + error17.hi + ((t15.lo - (t18 - t19)) + (t15.hi - t19));
    float t21 = t18 + total5;
    float t22 = t21 - t18;
    float error23 = error20 + error6 + ((t18 - (t21 - t22)) + (total5 - t22));
    float t24 = ((error23 - error23 == 0.0f) ? t21 + error23 : t21);
    size_t item = get_global_id(0);
    size_t first = item * rows_each;
    for (size_t row = first; row < min(first + rows_each, rows); ++row) {
      out0[0] = t24;
    }
}

