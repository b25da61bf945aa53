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
typedef element source_element;
typedef element result_element;
#define GET(p, i) (p)[i]
#define PUT(x, p, i) (p)[i] = (x);
