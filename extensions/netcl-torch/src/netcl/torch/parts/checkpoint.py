"""torch.utils.checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import netcl.autograd as ag
from netcl.core.errors import UnsupportedError


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Any] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, computed again in the backward pass; random numbers are always repeated."""
    if context_fn is not None:
        raise UnsupportedError("checkpoint: context_fn chooses what to keep, which is all or nothing here")
    return ag.checkpoint(function, *args, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Modules in a row, of which ``segments`` groups of equal size are checkpointed; the last group is not."""
    modules: Sequence[Any] = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(modules) // segments

    def run(start: int, stop: int) -> Callable[[Any], Any]:
        def forward(value: Any) -> Any:
            for module in modules[start:stop]:
                value = module(value)
            return value

        return forward

    for start in range(0, size * (segments - 1), size):
        input = checkpoint(run(start, start + size), input, **kwargs)
    return run(size * (segments - 1), len(modules))(input)


def set_checkpoint_debug_enabled(enabled: bool | None) -> Any:
    """Refused: raises UnsupportedError; there is no trace of the two runs."""
    raise UnsupportedError("checkpoint: there is no trace of the two runs to compare")
