// Minimal filtering on CPU devices: where the tiles of outputs are in their images, and their stores by rows.

${transposes}

typedef RAWV __attribute__((aligned(sizeof(RAW)))) RAW_PACKED;
typedef JOIN(RAW, TILE) __attribute__((aligned(sizeof(RAW)))) TILE_ROW;

// The rows and columns of a tile that are in its image, and its offset in the images; of VECTOR tiles.
typedef struct {
    int start[VECTOR], rows[VECTOR], columns[VECTOR];
    bool run[TILE];  // true if the tiles of a vector of a row's elements are next to each other, and whole
} targets;

#define PART (VECTOR / TILE)  // tiles of such a vector

static inline void find_targets(const tiling* g, const uint first_tile, targets* to) {
    const int count = (int)g->tiles - (int)first_tile;
    place p = place_of(g, min(first_tile, (uint)g->tiles - 1));
    for (int tile = 0; tile < VECTOR; tile++) {
        to->start[tile] = p.start;
        to->rows[tile] = tile < count ? min(TILE, (int)g->height - p.top) : 0;
        to->columns[tile] = min(TILE, (int)g->width - p.left);
        advance(g, &p);
    }
    for (int q = 0; q < TILE; q++) {
        const int first = q * PART;
        to->run[q] = true;
        for (int tile = first; tile < first + PART; tile++)
            to->run[q] &= to->rows[tile] == TILE && to->columns[tile] == TILE
                          && to->start[tile] == to->start[first] + (tile - first) * TILE;
    }
}

#define ROW_OF_TILES(j) three[i][j]
#define TO_LANES(q, x) lanes[i][q] = NARROW(x);

// Stores the elements of VECTOR tiles to an image.
static inline void store_tiles(const REALV three[TILE][TILE], const targets* to, __global STORAGE* image, const int width) {
    RAWV lanes[TILE][TILE];
    for (int i = 0; i < TILE; i++) JOIN(TURN_, TILE)(ROW_OF_TILES, TO_LANES)
    for (int q = 0; q < TILE; q++) {
        if (to->run[q]) {
            for (int i = 0; i < TILE; i++) *(__global RAW_PACKED*)(image + to->start[q * PART] + i * width) = lanes[i][q];
            continue;
        }
        for (int tile = q * PART; tile < q * PART + PART; tile++)
            for (int i = 0; i < to->rows[tile]; i++) {
                const RAW* row = (const RAW*)lanes[i] + tile * TILE;
                __global STORAGE* line = image + to->start[tile] + i * width;
                if (to->columns[tile] == TILE) *(__global TILE_ROW*)line = *(const TILE_ROW*)row;
                else for (int j = 0; j < to->columns[tile]; j++) RAW_STORE(row[j], line, j);
            }
    }
}

