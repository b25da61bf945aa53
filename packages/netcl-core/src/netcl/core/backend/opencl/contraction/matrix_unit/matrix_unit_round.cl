// Rounds elements of float32 to the nearest of TF32, ties away from zero, for a unit that takes their high bits. NaN stays NaN.

$kernel round_tf32(read uint x, write uint out, long count) {
    const long i = get_global_id(0);
    if (i >= count) return;
    const uint bits = x[i], finite = (bits & 0x7f800000u) != 0x7f800000u, nan = (bits & 0x7fffffffu) > 0x7f800000u;
    out[i] = finite ? bits + 0x1000u & 0xffffe000u : bits | nan << 22;
}
