// Fragments of the tiles of contract_matrix_unit.cl, loaded by ldmatrix: 16 rows of A, and 16 columns of B, which two multiplies
// take. Elements of float32 are rounded to TF32.

#define FRAGMENT_A uint4
#define FRAGMENT_B uint4
#define LOAD_A(part, tile, row, k) part = fragment_a(tile, row, k, lane)
#define LOAD_B(part, tile, column, k) part = fragment_b(tile, column, k, lane)
#define MULTIPLY_ACCUMULATE(sums, a, b) { MULTIPLY(sums, a, b.x, b.y); MULTIPLY(sums + 4, a, b.z, b.w); }

#if WORDS == 2
static inline uint4 rounded_rows(uint4 part) {
    asm("cvt.rna.tf32.f32 %0, %0; cvt.rna.tf32.f32 %1, %1; cvt.rna.tf32.f32 %2, %2; cvt.rna.tf32.f32 %3, %3;"
        : "+r"(part.x), "+r"(part.y), "+r"(part.z), "+r"(part.w));
    return part;
}
#else
#define rounded_rows(part) (part)
#endif

static inline uint4 fragment_a(__local const ushort* tile, const uint row, const uint k, const uint lane) {
#if A_ALONG
    return rounded_rows(rows_of(tile + ALONG(row + lane % 16, lane % 8, k / 8 + lane / 16)));
#else
    return columns_of(tile + ACROSS(k + lane % 8 + lane / 16 * 8, lane % 8, row / 8 + lane / 8 % 2));
#endif
}

static inline uint4 fragment_b(__local const ushort* tile, const uint column, const uint k, const uint lane) {
#if B_ALONG
    return rounded_rows(rows_of(tile + ALONG(column + lane % 8 + lane / 16 * 8, lane % 8, k / 8 + lane / 8 % 2)));
#else
    return columns_of(tile + ACROSS(k + lane % 16, lane % 8, column / 8 + lane / 16));
#endif
}
