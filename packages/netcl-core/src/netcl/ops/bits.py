"""Bitwise ops on integers, one row each; on bool they are the logical ops."""

from __future__ import annotations

import numpy as np

from netcl.ops.domains import whole
from netcl.ops.table import WRITTEN, OpFunction, elementwise

bitwise_and: OpFunction = elementwise(
    "bitwise_and",
    "bitwise_and(v0, v1)",
    "Returns the bitwise and of two integers; logical and for bool.",
    operands="a b",
    domain=whole(np.bitwise_and),
    forms=f"{WRITTEN} a.*",
)
bitwise_or: OpFunction = elementwise(
    "bitwise_or",
    "bitwise_or(v0, v1)",
    "Returns the bitwise or of two integers; logical or for bool.",
    operands="a b",
    domain=whole(np.bitwise_or),
    forms=f"{WRITTEN} a.*",
)
bitwise_xor: OpFunction = elementwise(
    "bitwise_xor",
    "bitwise_xor(v0, v1)",
    "Returns the bitwise exclusive or of two integers; logical exclusive or for bool.",
    operands="a b",
    domain=whole(np.bitwise_xor),
    forms=f"{WRITTEN} a.*",
)
bitwise_not: OpFunction = elementwise(
    "bitwise_not",
    "bitwise_not(v0)",
    "Returns the complement of an integer; logical not for bool.",
    domain=whole(np.invert),
    forms=f"{WRITTEN} a.bitwise_invert",
)
left_shift: OpFunction = elementwise(
    "left_shift",
    "left_shift(v0, v1)",
    "Returns a shifted left by b bits; 0 if b is negative or at least the width of the dtype.",
    operands="a b",
    domain=whole(np.left_shift, bools=False, counts=True),
    forms="x.bitwise_left_shift x.bitwise_left_shift_ a.bitwise_left_shift",
)
right_shift: OpFunction = elementwise(
    "right_shift",
    "right_shift(v0, v1)",
    "Returns a shifted right by b bits with sign extension: floor(a / 2^b).",
    operands="a b",
    domain=whole(np.right_shift, bools=False, counts=True),
    forms="x.bitwise_right_shift x.bitwise_right_shift_ a.bitwise_right_shift",
)
