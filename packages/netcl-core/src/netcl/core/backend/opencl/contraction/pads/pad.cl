// Copies of images for convolutions: the common part of pad_pad.cl, pad_sample.cl and pad_spread.cl. Elements of BYTES
// bytes are moved as bits. One work-item: `block` rows of the result, or (EACH, on devices with many cores) EACH elements
// of it, at positions of 32 bits, with divisions by multiplication.

typedef struct {
    long rows, block, offset;
    long extent[3], padded[3], low[3];
} padding;

typedef struct {
    long rows, block;
    long extent[3], result[3], step[3];  // of x, of the result
} sampling;

// The same with EACH, for `count` elements.
typedef struct {
    long count, offset, extent[3], low[3];
    divisor padded[3];
} padding_each;

typedef struct {
    long count, extent[3];
    divisor result[3], step[3];
} sampling_each;
#define EACH_ELEMENT \
    for (int turn = 0, at = get_group_id(0) * get_local_size(0) * EACH + get_local_id(0); turn < EACH; turn++, at += get_local_size(0))
