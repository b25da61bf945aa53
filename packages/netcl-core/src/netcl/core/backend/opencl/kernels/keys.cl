// Unsigned keys in the order of the values: NaN is last, the zeros are equal. By bits, as a device may take the smallest
// numbers for zero. TELLS(key) is whether the key alone says what the value was.

#if defined(DTYPE_FLOAT64) || defined(DTYPE_INT64)
#define SIGN (1UL << 63)
#define KEY_MASK (~0UL)
#else
#define SIGN 0x80000000U
#define KEY_MASK 0xffffffffUL
#endif

#if defined(DTYPE_INT64)
#define TELLS(key) 1
static inline ulong key_of(const REAL v) { return as_ulong(v) ^ SIGN; }
static inline REAL value_of(const ulong key) { return as_long(key ^ SIGN); }
#elif defined(DTYPE_INT32) || defined(DTYPE_UINT8)
#define TELLS(key) 1
static inline ulong key_of(const REAL v) { return (uint)v ^ SIGN; }
static inline REAL value_of(const ulong key) { return (REAL)((uint)key ^ SIGN); }
#else
#if defined(DTYPE_FLOAT64)
#define INFINITE 0x7ff0000000000000UL
typedef ulong real_bits;
#define AS_BITS(v) as_ulong(v)
#define AS_REAL(u) as_double(u)
#else
#define INFINITE 0x7f800000U
typedef uint real_bits;
#define AS_BITS(v) as_uint(v)
#define AS_REAL(u) as_float(u)
#endif
#define TELLS(key) ((key) != SIGN && (key) != KEY_MASK)
static inline ulong key_of(const REAL v) {
    const real_bits bits = AS_BITS(v);
    if ((bits & ~SIGN) > INFINITE) return KEY_MASK;
    return bits << 1 == 0 ? SIGN : (real_bits)(bits & SIGN ? ~bits : bits | SIGN);
}
static inline REAL value_of(const ulong key) {
    const real_bits bits = (real_bits)key;
    return AS_REAL(bits & SIGN ? bits & ~SIGN : ~bits);
}
#endif

