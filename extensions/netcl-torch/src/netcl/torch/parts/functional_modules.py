"""functorch: modules as functions of their parameters and buffers, as before torch.func."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from netcl.core import Tensor
from netcl.nn import Module
from netcl.torch.parts.transforms import functional_call, stack_module_state

Tensors = tuple[Tensor, ...]


class _Function(Module):
    """A module that computes with the tensors of its call."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.stateless_model: Any = model
        self._names = [[name for name, _ in named] for named in (model.named_parameters(), model.named_buffers())]

    def _called(self, state: Sequence[Sequence[Tensor]], args: Any, kwargs: Any) -> Any:
        """Returns the result of the module with these parameters and buffers."""
        named = {
            name: x
            for names, tensors in zip(self._names, state, strict=True)
            for name, x in zip(names, tensors, strict=True)
        }
        return functional_call(self.stateless_model, named, args, kwargs)


class FunctionalModule(_Function):
    """A module without buffers as a function: ``function(parameters, *inputs)``."""

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Returns the result of the module with these parameters."""
        return self._called((params, ()), args, kwargs)


class FunctionalModuleWithBuffers(_Function):
    """A module as a function: ``function(parameters, buffers, *inputs)``."""

    def forward(self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Returns the result of the module with these tensors."""
        return self._called((params, buffers), args, kwargs)


def make_functional_with_buffers(
    model: Any, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """Returns a copy of a module as a function, and copies of its parameters and its buffers.

    ``disable_autograd_tracking``: the parameters do not require grad.
    """
    model = _copied(model, disable_autograd_tracking)
    return FunctionalModuleWithBuffers(model), tuple(model.parameters()), tuple(model.buffers())


def make_functional(model: Any, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, Tensors]:
    """Returns a copy of a module as a function, and copies of its parameters; see make_functional_with_buffers.

    Raises:
        RuntimeError: the module has buffers.
    """
    if next(iter(model.buffers()), None) is not None:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    model = _copied(model, disable_autograd_tracking)
    return FunctionalModule(model), tuple(model.parameters())


def _copied(model: Any, without_grad: bool) -> Any:
    model = copy.deepcopy(model)
    return model.requires_grad_(False) if without_grad else model


def combine_state_for_ensemble(models: Iterable[Any]) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """Returns modules of one class and mode as a function of one, for vmap: the function, and the parameters and
    buffers of all, stacked along a new first axis.
    """
    models = list(models)
    params, buffers = stack_module_state(models)
    function = FunctionalModuleWithBuffers(copy.deepcopy(models[0]))
    return function, tuple(x.detach() for x in params.values()), tuple(buffers.values())
