"""Gradients that are zero outside a block, as gradients of slices are: all parts of a split are joined by one copy
each, instead of being added as gradients of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from netcl.core import Tensor


class Block(NamedTuple):
    """A gradient of a tensor of ``shape`` that is ``values`` at starts + i * steps, and zero elsewhere."""

    values: Tensor
    shape: tuple[int, ...]
    starts: tuple[int, ...]
    steps: tuple[int, ...]


class Sum(NamedTuple):
    """A sum of gradients that is not computed yet: a whole one, None for none, and blocks in the order they came in."""

    whole: Tensor | None
    blocks: tuple[Block, ...]


Partial = Tensor | Block | Sum


def add(call: Callable[..., Any], earlier: Partial | None, grad: Partial) -> Partial:
    """Returns the sum of two gradients; ``call`` runs an op of the table. Blocks are kept as they are."""
    if earlier is None:
        return grad
    if isinstance(earlier, Tensor) and isinstance(grad, Tensor):
        return call("add", earlier, grad)  # type: ignore[no-any-return]
    first, other = (_as_sum(each) for each in (earlier, grad))
    wholes = [each for each in (first.whole, other.whole) if each is not None]
    return Sum(call("add", *wholes) if len(wholes) > 1 else wholes[0] if wholes else None, first.blocks + other.blocks)


def _as_sum(grad: Partial) -> Sum:
    if isinstance(grad, Tensor):
        return Sum(grad, ())
    return Sum(None, (grad,)) if isinstance(grad, Block) else grad


def computed(call: Callable[..., Any], grad: Partial) -> Tensor:
    """Returns a gradient as a tensor: blocks that tile the shape along an axis are concatenated, others added."""
    if isinstance(grad, Tensor):
        return grad
    whole, blocks = _as_sum(grad)
    axis = _tiled_axis(blocks)
    if axis is None:
        scattered = [call("strided_scatter", *block) for block in blocks]
    else:
        in_order = sorted(blocks, key=lambda block: block.starts[axis])
        scattered = [call("concatenate", *(block.values for block in in_order), axis=axis)]
    total = scattered[0] if whole is None else call("add", whole, scattered[0])
    for more in scattered[1:]:
        total = call("add", total, more)
    return total  # type: ignore[no-any-return]


def _tiled_axis(blocks: Sequence[Block]) -> int | None:
    """Returns the axis along which two or more blocks together cover their shape; None if there is none."""
    shape = blocks[0].shape
    cut = {axis for block in blocks for axis, n in enumerate(block.values.shape) if n != shape[axis]}
    if len(cut) != 1 or len(blocks) < 2 or any(step != 1 for block in blocks for step in block.steps):
        return None
    (axis,), end = cut, 0
    for start, size in sorted((block.starts[axis], block.values.shape[axis]) for block in blocks):
        if start != end:
            return None
        end += size
    return axis if end == shape[axis] else None
