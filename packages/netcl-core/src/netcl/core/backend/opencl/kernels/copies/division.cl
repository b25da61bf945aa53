// Quotients of 32 bits by multiplication (Granlund and Montgomery 1994): of n below 2^31 by a divisor, with the magic
// number and shift computed on the host.

static inline uint quotient_by(const uint n, const uint magic, const uint shift) { return (mul_hi(n, magic) + n) >> shift; }

// A number with its magic number and shift.
typedef struct { long size, magic, shift; } divisor;

static inline int quotient(const int n, const divisor by) { return (int)quotient_by(n, by.magic, by.shift); }
