// Elements that are moved as bits of BYTES bytes.

#if BYTES == 1
typedef uchar element;
#elif BYTES == 2
typedef ushort element;
#elif BYTES == 4
typedef uint element;
#else
typedef ulong element;
#endif
