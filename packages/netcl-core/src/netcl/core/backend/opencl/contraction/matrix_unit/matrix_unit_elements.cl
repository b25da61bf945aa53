// Fragments that are loaded element by element: a lane has A_COUNT elements of a fragment of A and B_COUNT of one of B, at the
// rows (of B: columns) and numbers along k of the unit's row in the table.

#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif

// Through pointers: of fragments that functions return PoCL 3.0 takes wrong elements where barriers follow.
typedef ELEMENT a_fragment[A_COUNT];
typedef ELEMENT b_fragment[B_COUNT];
#define FRAGMENT_A a_fragment
#define FRAGMENT_B b_fragment
#define LOAD_A(part, tile, row, k) load_a(part, tile, row, k, lane)
#define LOAD_B(part, tile, column, k) load_b(part, tile, column, k, lane)

static inline void load_a(ELEMENT* part, __local const ushort* tile, const uint row, const uint k, const uint lane) {
    EACH_FRAGMENT
    for (uint e = 0; e < A_COUNT; e++) part[e] = A_AT(tile, row + A_ROW(lane, e), k / WORDS + A_K(lane, e));
}

static inline void load_b(ELEMENT* part, __local const ushort* tile, const uint column, const uint k, const uint lane) {
    EACH_FRAGMENT
    for (uint e = 0; e < B_COUNT; e++) part[e] = B_AT(tile, column + B_COLUMN(lane, e), k / WORDS + B_K(lane, e));
}
