"""Bitwise ops on integers, one row each; on bool they are the logical ops."""

from __future__ import annotations

import numpy as np

from netcl.ops.domains import whole
from netcl.ops.table import elementwise

bitwise_and = elementwise(
    "bitwise_and",
    "bitwise_and(v0, v1)",
    "The bits that both whole numbers have; of bool, and.",
    operands="a b",
    domain=whole(np.bitwise_and),
)
bitwise_or = elementwise(
    "bitwise_or",
    "bitwise_or(v0, v1)",
    "The bits that one of two whole numbers has; of bool, or.",
    operands="a b",
    domain=whole(np.bitwise_or),
)
bitwise_xor = elementwise(
    "bitwise_xor",
    "bitwise_xor(v0, v1)",
    "The bits that just one of two whole numbers has; of bool, exclusive or.",
    operands="a b",
    domain=whole(np.bitwise_xor),
)
bitwise_not = elementwise(
    "bitwise_not", "bitwise_not(v0)", "All bits of a whole number turned over; of bool, not.", domain=whole(np.invert)
)
left_shift = elementwise(
    "left_shift",
    "left_shift(v0, v1)",
    "a times 2^b by its bits; 0 where b is no less than the width of the dtype, or negative.",
    operands="a b",
    domain=whole(np.left_shift, bools=False, counts=True),
)
right_shift = elementwise(
    "right_shift",
    "right_shift(v0, v1)",
    "floor(a / 2^b) by its bits, the sign filling up.",
    operands="a b",
    domain=whole(np.right_shift, bools=False, counts=True),
)
