"""The result of ops that find elements by their order: values, and the positions that they come from."""

from __future__ import annotations

from typing import NamedTuple

from netcl.core.tensor import Tensor


class Ranked(NamedTuple):
    """Elements along an axis and their positions in it, int64, both of one shape."""

    values: Tensor
    indices: Tensor
