// The places of the tiles of minimal filtering in images, for the kernels of CPU devices.

typedef struct {
    long planes, tiles, stride, product;  // of tiles: elements from a plane to the next, from a product
    long span, each;                      // of a work-item: vectors of tiles, planes
    long across, down;                    // tiles of a row, of a column of an image
    long plane, image, offset;            // of images: elements from one to the next; of the first
    long height, width, length;           // length: elements of all images
    long low[2];                          // rows and columns of zeros before an image
} tiling;

// A tile: its first element in its image and, from the first image on, in a plane.
typedef struct {
    int tile, top, left, start;
} place;

static inline place place_of(const tiling* g, const uint tile) {
    const uint row = tile / (uint)g->across, image = row / (uint)g->down;
    place p;
    p.tile = tile;
    p.top = (int)((row - image * (uint)g->down) * TILE) - (int)g->low[0];
    p.left = (int)((tile - row * (uint)g->across) * TILE) - (int)g->low[1];
    p.start = (int)image * (int)g->image + p.top * (int)g->width + p.left;
    return p;
}

// To the next tile; the last one is repeated.
static inline void advance(const tiling* g, place* p) {
    if (p->tile + 1 >= (int)g->tiles) return;
    p->tile++;
    p->left += TILE;
    p->start += TILE;
    if (p->left < (int)(g->across * TILE - g->low[1])) return;
    p->left -= (int)g->across * TILE;
    p->top += TILE;
    p->start += TILE * (int)(g->width - g->across);
    if (p->top < (int)(g->down * TILE - g->low[0])) return;
    p->top -= (int)g->down * TILE;
    p->start += (int)(g->image - g->down * TILE * g->width);
}
