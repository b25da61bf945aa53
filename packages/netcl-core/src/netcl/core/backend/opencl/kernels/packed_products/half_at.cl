// PoCL 3 converts a half by a dozen instructions, and calls functions for vload8 and vstore8.
#if defined(POCL_DEVICE_ADDRESS_BITS) && defined(__F16C__)
#define HALF_AT(i, p) (__builtin_ia32_vcvtph2ps((short8)(((__global const short*)(p))[i], 0, 0, 0, 0, 0, 0, 0))[0])
#define EIGHT_HALVES(p) __builtin_ia32_vcvtph2ps256(*(__global const packed_short8*)(p))
#else
#define HALF_AT(i, p) vload_half(i, p)
#define EIGHT_HALVES(p) vload_half8(0, p)
#endif
typedef float8 __attribute__((aligned(4))) packed_float8;
typedef short8 __attribute__((aligned(2))) packed_short8;
typedef uchar8 __attribute__((aligned(1))) packed_uchar8;
