// PoCL 3 converts a half by a dozen instructions.
#if defined(POCL_DEVICE_ADDRESS_BITS) && defined(__F16C__)
#define HALF_AT(i, p) (__builtin_ia32_vcvtph2ps((short8)(((__global const short*)(p))[i], 0, 0, 0, 0, 0, 0, 0))[0])
#else
#define HALF_AT(i, p) vload_half(i, p)
#endif
