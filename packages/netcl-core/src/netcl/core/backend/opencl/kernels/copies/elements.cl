// Elements that are moved as bits of BYTES bytes.

#if BYTES == 1
typedef uchar element;
#elif BYTES == 2
typedef ushort element;
#elif BYTES == 4
typedef uint element;
#elif BYTES == 16
typedef uint4 element;
#else
typedef ulong element;
#endif
