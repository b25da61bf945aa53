"""Training steps that are captured after a warm-up, once per batch shape, and then replayed."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, overload

from netcl.autograd.grad_node import GradNode
from netcl.autograd.levels import LEVELS, without
from netcl.core import Tensor
from netcl.core.errors import CaptureError
from netcl.core.user_frame import level_outside

if TYPE_CHECKING or "capture" in LEVELS:
    from netcl.runtime.capture import CapturedStep, capture, is_capturing

__all__ = ["CompiledTrainingStep", "compile_training_step"]

_MOST_SHAPES = 8  # each captured step keeps its intermediate buffers


class CompiledTrainingStep:
    """The result of ``compile_training_step``, called like the function; ``replays`` counts replayed calls.

    If the state differs from the captured one (a parameter replaced, train or eval, a param group added) the step runs
    eagerly and is captured again. A function that cannot be captured runs eagerly, after one warning; so does one that
    returns a tensor whose backward has not run, since a replay gives values without a graph.
    """

    def __init__(self, step: Callable[..., Any], warmup: int = 2) -> None:
        if warmup < 1:
            raise ValueError(f"warmup is at least 1, as the first call makes what a captured one needs, not {warmup}")
        functools.update_wrapper(self, step)
        self._step, self._warmup = step, warmup
        self._calls: dict[Hashable, int] = {}
        self._captured: dict[Hashable, CapturedStep] = {}
        self._enabled = not without("capture", "training steps run eagerly")
        self.replays: int = 0

    def __call__(self, *inputs: Any) -> Any:
        tensors = _tensors(inputs)
        if not (self._enabled and tensors and all(isinstance(x, Hashable) for x in inputs)):
            return self._step(*inputs)
        if is_capturing(tensors):  # its calls are part of a step of the caller
            return self._step(*inputs)
        key = tuple([_described(x) for x in inputs])
        captured = self._captured.get(key)
        if captured is None:
            if self._calls.get(key, 0) < self._warmup or len(self._captured) >= _MOST_SHAPES:
                self._calls[key] = self._calls.get(key, 0) + 1
                result = self._step(*inputs)
                if any(_awaits_backward(tensor) for tensor in _tensors(result)):
                    self._stay_eager("it returns a tensor whose backward has not run; call backward in it, or no_grad")
                return result
            try:
                captured = self._captured[key] = capture(self._step, *inputs)
            except CaptureError as error:
                self._stay_eager(str(error))
                return self._step(*inputs)
        try:
            result = captured.replay(*inputs)
        except CaptureError:
            self._captured.clear()
            self._calls = {key: 1}
            return self._step(*inputs)
        self.replays += 1
        return result

    def _stay_eager(self, reason: str) -> None:
        self._enabled = False
        warnings.warn(f"the training step is not compiled: {reason}", UserWarning, stacklevel=level_outside())


def _described(x: Any) -> Hashable:
    """Returns shape and dtype of a tensor, and of those in tuples; of other arguments the type and the value."""
    if isinstance(x, Tensor):
        return x.shape, x.dtype
    return type(x), tuple([_described(part) for part in x]) if isinstance(x, tuple) else x


def _tensors(result: Any) -> list[Tensor]:
    """The tensors of nested tuples, lists and dicts."""
    parts = result.values() if isinstance(result, dict) else result if isinstance(result, (tuple, list)) else ()
    return [result] if isinstance(result, Tensor) else [tensor for part in parts for tensor in _tensors(part)]


def _awaits_backward(tensor: Tensor) -> bool:
    """True if a node of the tensor's graph still has its saved values: no backward has freed them."""
    nodes, seen = [getattr(tensor.grad_fn, "node", tensor.grad_fn)], set()
    while nodes:
        node = nodes.pop()
        if not isinstance(node, GradNode) or id(node) in seen:
            continue
        if node.saved:
            return True
        seen.add(id(node))
        nodes += [edge[0] for edge in node.edges if edge is not None]
    return False


@overload
def compile_training_step(step: Callable[..., Any], *, warmup: int = 2) -> CompiledTrainingStep: ...
@overload
def compile_training_step(
    step: None = None, *, warmup: int = 2
) -> Callable[[Callable[..., Any]], CompiledTrainingStep]: ...
def compile_training_step(step: Callable[..., Any] | None = None, *, warmup: int = 2) -> Any:
    """Captures ``step(*batch)``, a function with forward pass, backward pass and optimizer, after ``warmup`` calls per
    shape; also usable as a decorator. Later calls replay it, with the same results.

    Values computed in Python are frozen at capture: the optimizer's learning rate, dropout, statistics and moments are
    on the device and stay current; a Python counter or a random branch does not.
    """
    if step is None:
        return functools.partial(CompiledTrainingStep, warmup=warmup)
    return CompiledTrainingStep(step, warmup)
