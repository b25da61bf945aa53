"""The graph and what it saves: hooks on saved tensors, edges of tensors, and CompiledGraph under its public path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from netcl.autograd.compiler.captured_graph import CompiledGraph as CompiledGraph
from netcl.autograd.grad_node import AccumulateGrad, GradNode, edge_of, packing, packing_here
from netcl.autograd.mode import state
from netcl.autograd.prediction import settle
from netcl.core import Tensor


@contextmanager
def saved_tensors_hooks(pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> Iterator[None]:
    """A block in which each tensor that an op of this thread saves for its gradient is kept as ``pack_hook(x)``;
    ``unpack_hook`` of that gives it to the backward pass, and must return a tensor of its shape.

    Of nested blocks the innermost one packs. Raises RuntimeError in a block of ``disable_saved_tensors_hooks``.
    """
    if packing_here.refusal is not None:
        raise RuntimeError(packing_here.refusal)
    settle("hooks on saved tensors")  # predicted calls were made before the block
    outer = packing_here.hooks
    packing_here.hooks = (*outer, (pack_hook, unpack_hook))
    state.packs = True
    packing.append(None)
    try:
        yield
    finally:
        packing_here.hooks = outer
        state.packs = bool(outer)
        packing.pop()


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """A block in which ``saved_tensors_hooks`` raises RuntimeError with ``error_message``, which is raised at once if
    there are hooks already.
    """
    if packing_here.hooks:
        raise RuntimeError(error_message)
    outer = packing_here.refusal
    packing_here.refusal = error_message
    try:
        yield
    finally:
        packing_here.refusal = outer


def save_on_cpu(pin_memory: bool = False, device_type: str = "cuda") -> Any:
    """A block in which saved tensors are kept on the CPU, and come back to their device for the backward pass.

    ``pin_memory`` and ``device_type`` change nothing: a tensor of any other device is copied.
    """
    return saved_tensors_hooks(lambda x: (x.device, x.to("cpu")), lambda kept: kept[1].to(kept[0]))


class GradientEdge(NamedTuple):
    """A place in the graph: a node and the number of its output."""

    node: Any
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The place of a tensor in the graph; raises RuntimeError if it does not require grad."""
    if not tensor.requires_grad:
        raise RuntimeError("get_gradient_edge: the tensor does not require grad, so that it has no place in the graph")
    target, index = edge_of(tensor)
    return GradientEdge(target, index) if isinstance(target, GradNode) else GradientEdge(AccumulateGrad(target), 0)


Node = GradNode
