"""torch.autograd.forward_ad: dual tensors, by the product of the Jacobian with the tangents, in reverse mode twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import netcl as nc
import netcl.autograd as ag
from netcl.autograd.graph import Node
from netcl.core import Tensor

_levels: list[list[tuple[Tensor, Tensor]]] = []  # of each open level the dual tensors and their tangents


class UnpackedDualTensor(NamedTuple):
    """A value and its tangent; None for a tensor that no dual tensor has a part in."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Begins the level of dual tensors and returns its number; raises RuntimeError within another one, as PyTorch."""
    if _levels:
        raise RuntimeError("nested forward mode AD is not supported: expected no open dual level")
    _levels.append([])
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Ends the level: its tensors have no tangents any more."""
    if not _levels:
        raise RuntimeError("exit_dual_level: expected an open dual level, write enter_dual_level() first")
    _levels.pop()


@contextmanager
def dual_level() -> Iterator[int]:
    """A block in which there are dual tensors."""
    level = enter_dual_level()
    try:
        yield level
    finally:
        exit_dual_level(level=level)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """``tensor`` with a tangent of its shape. It requires grad, since tangents are computed from the graph: ops under
    no_grad lose them.
    """
    if not _levels:
        raise RuntimeError("make_dual: expected an open dual level; write with dual_level():")
    if tangent.shape != tensor.shape:
        raise RuntimeError(f"make_dual: expected a tangent of shape {tensor.shape}, got {tangent.shape}")
    if not tangent.is_floating_point():
        raise RuntimeError(f"make_dual: expected a tangent of a floating dtype, got {tangent.dtype}")
    dual = tensor.reshape(tensor.shape) if tensor.requires_grad else tensor.detach().requires_grad_()
    _levels[-1].append((dual, tangent))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value and the tangent of a tensor that was computed from dual tensors."""
    duals = [(dual, tangent) for dual, tangent in (_levels[-1] if _levels else []) if dual.requires_grad]
    for dual, tangent in duals:
        if dual is tensor:
            return UnpackedDualTensor(dual if dual.grad_fn is not None else dual.detach(), tangent)
    if not tensor.requires_grad or not duals:
        return UnpackedDualTensor(tensor, None)
    with nc.enable_grad():
        # u J, a linear function of u, whose derivative in the direction of the tangents is J times these.
        direction = nc.zeros_like(tensor).requires_grad_()
        rows = ag.grad(tensor, [dual for dual, _ in duals], direction, True, True)
        used = [(row, tangent.to(row.dtype)) for row, (_, tangent) in zip(rows, duals) if row is not None]
        if not used:
            return UnpackedDualTensor(tensor, None)
        linear = [(row, tangent) for row, tangent in used if row.requires_grad]
        differentiable = _has_other_leaves(tensor, [dual for dual, _ in duals])
        tangents = [tangent for _, tangent in linear]
        (found,) = ag.grad([row for row, _ in linear], direction, tangents, differentiable, True)
    result = nc.zeros_like(tensor) if found is None else found
    return (
        UnpackedDualTensor(tensor, result) if differentiable else UnpackedDualTensor(tensor.detach(), result.detach())
    )


def _has_other_leaves(tensor: Tensor, duals: list[Tensor]) -> bool:
    """True if a leaf that the program made, and no dual tensor, has a part in ``tensor``."""
    seen: set[Any] = set()
    stack: list[Any] = [tensor.grad_fn]
    own = {id(dual) for dual in duals if dual.grad_fn is None}
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, Node) or hasattr(node, "node"):
            stack.extend(function for function, _ in node.next_functions)
        elif id(node.variable) not in own:
            return True
    return False
