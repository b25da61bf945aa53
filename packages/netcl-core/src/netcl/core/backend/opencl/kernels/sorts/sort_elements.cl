// The elements of merges: a key (see sort_keys.py) and the position that it came from.

${keys}

#if defined(DTYPE_FLOAT64) || defined(DTYPE_INT64)
typedef ulong2 element;
#define KEY(e) ((e).x)
#define INDEX_OF(e) ((e).y)
#define ELEMENT(key, index) ((ulong2)((key), (index)))
#define LAST ((ulong2)(~0UL, ~0UL))
#define BEFORE(a, b) (KEY(a) < KEY(b))
#else
typedef ulong element;  // the key above the position
#define KEY(e) ((e) >> 32)
#define INDEX_OF(e) ((e) & 0xffffffffUL)
#define ELEMENT(key, index) ((key) << 32 | (index))
#define LAST (~0UL)
#define BEFORE(a, b) ((a) < (b))
#endif

