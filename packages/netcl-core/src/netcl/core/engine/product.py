"""Product: an op that is one matrix product, by shapes, for engines to repeat it by its execution plan."""

from __future__ import annotations

from typing import NamedTuple

Shape = tuple[int, ...]


class Product(NamedTuple):
    """The product of the first two arguments of an op, seen in the shapes ``a`` and ``b``, after the transposes, plus
    the third argument, of the shape ``added``, None: nothing is added; all are of ``dtype``. The result has ``shape``.
    """

    a: Shape
    b: Shape
    dtype: str
    transpose_a: bool = False
    transpose_b: bool = False
    added: Shape | None = None
    shape: Shape = ()
