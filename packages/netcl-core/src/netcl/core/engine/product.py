"""Ops that are a matrix product, or copies into one result, by shapes, for engines to repeat them by their plans."""

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


class Block(NamedTuple):
    """The arguments of ``DeviceBackend.copy``."""

    shape: Shape
    source_strides: Shape
    source_offset: int
    out_strides: Shape
    out_offset: int


class Copies(NamedTuple):
    """The result of ``shape`` that holds a copy of each argument of an op, by its block; all are of ``dtype``."""

    shape: Shape
    dtype: str
    blocks: tuple[Block, ...]
