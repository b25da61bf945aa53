// The tiles of contract_attention_unit.cl in local memory, and their products on a matrix unit. A tile has rows of
// WIDTH or VALUES columns, in panels of 64 columns; chunks of 8 are swizzled so that 8 adjacent rows are in different
// banks. With PARTS the operands are float32 in PARTS bfloat16 planes each (matrix_unit_split.cl), and a tile has so
// many planes.

#define ITEMS (32 * WARPS)
#define FRAGMENTS (WARP_ROWS / 16)
#define TILE (WARPS * WARP_ROWS)
#define AHEAD 1  // blocks that are copied before one is used
#define PANEL(rows, row, low, chunk) ((chunk) / 8 * ((rows) * 64) + (row) * 64 + ((((chunk) & 7) ^ ((low) & 7)) * 8))
#define PANELS(columns) (((columns) + 63) / 64)
#define PLANE_SIZE(rows, columns) ((rows) * PANELS(columns) * 64)
#define PLANES (PARTS ? PARTS : 1)
#define TILE_SIZE(rows, columns) (PLANES * PLANE_SIZE(rows, columns))
