"""Training steps that are captured after a warm-up, once per batch shape, and then replayed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from netcl.autograd.compiler.compiled_function import CompiledFunction


class CompiledTrainingStep(CompiledFunction):
    """The result of ``compile_training_step``, called like the function; ``replays`` counts replayed calls.

    If the state differs from the captured one (a parameter replaced, train or eval, a param group added) the step runs
    eagerly and is captured again. A function that cannot be captured runs eagerly, after one warning. So does a
    function that returns a tensor before its backward pass, since a replay gives values without a graph.
    """

    def __init__(self, step: Callable[..., Any], warmup: int = 2) -> None:
        if warmup < 1:
            raise ValueError(
                f"warmup: expected at least 1, as the first call makes what a captured one needs, got {warmup}"
            )
        super().__init__(step, warmup=warmup)
        functools.update_wrapper(self, step)


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
