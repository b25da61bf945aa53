"""Parametrizations: a parameter of a module that is computed by modules from other parameters."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.nn.container import ModuleDict, ModuleList
from netcl.nn.module import Module


class _Cache:
    """Values of parametrized tensors, while a block of ``cached`` is active."""

    def __init__(self) -> None:
        self.depth: int = 0
        self.values: dict[tuple[int, str], Tensor] = {}


_cache = _Cache()


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Computes every parametrized tensor once inside the block."""
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.values.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor and the tensors that they compute it from: ``original``, or ``original0``,
    ``original1`` and so on if the ``right_inverse`` of the first returns several.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList takes at least one module")
        super().__init__(modules)
        self.unsafe: bool = unsafe
        value: Any = original
        with ag.no_grad():
            for module in reversed(modules):
                if hasattr(module, "right_inverse"):
                    value = module.right_inverse(value)
        self.is_tensor: bool = isinstance(value, Tensor)
        parameter = isinstance(original, ag.Parameter)
        if self.is_tensor:
            if parameter and not unsafe and value.dtype != original.dtype:
                raise ValueError(f"right_inverse returns {value.dtype} for a parameter of {original.dtype}")
            if parameter and value is not original:
                # The same parameter with the new value, so that an optimizer made before steps it.
                original.data = _kept(value)
            elif not parameter:
                original = value
            self._add("original", original, parameter)
        else:
            self.ntensors: int = len(value)
            for at, tensor in enumerate(value):
                if tensor is not None:
                    held = ag.Parameter(_kept(tensor), original.requires_grad) if parameter else _kept(tensor)
                    self._add(f"original{at}", held, parameter)
        if not unsafe:
            result = self()
            if result.shape != original.shape and self.is_tensor is False:
                raise ValueError(f"the parametrization changes the shape to {result.shape}; write unsafe=True")

    def _add(self, name: str, value: Any, parameter: bool) -> None:
        if parameter:
            self.register_parameter(name, value)
        else:
            self.register_buffer(name, value)

    def _originals(self) -> list[Any]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{at}", None) for at in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Writes the tensors that the parametrizations turn into ``value``."""
        inverse: Any = value
        with ag.no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"{type(module).__name__} has no right_inverse, so the parametrized tensor cannot be assigned"
                    )
                inverse = module.right_inverse(inverse)
            for target, tensor in zip(self._originals(), [inverse] if self.is_tensor else inverse):
                if target is not None:
                    target.write(tensor.detach())

    def forward(self, *unused: Any) -> Tensor:
        first, *rest = list(self)
        value: Tensor = first(*self._originals())
        for module in rest:
            value = module(value)
        return value


def _kept(value: Tensor) -> Tensor:
    return Tensor.empty(value.shape, value.dtype, queue=value.queue, persistent=True).write(value.detach())


def _parametrized_class(module: Module) -> None:
    base = type(module)

    def reduce(self: Any, protocol: int) -> Any:
        raise RuntimeError("a parametrized module cannot be pickled; save its state_dict()")

    def copied(self: Any, memo: dict[int, Any]) -> Any:
        # The class that is made here has the properties; the copy shares it.
        return Module.__deepcopy__(self, memo)

    made = type(f"Parametrized{base.__name__}", (base,), {"__deepcopy__": copied, "__reduce_ex__": reduce})
    made.__module__ = base.__module__
    module.__class__ = made


def _property(name: str) -> property:
    def value(self: Any) -> Tensor:
        holder: Any = self.parametrizations[name]
        if not _cache.depth:
            return holder()  # type: ignore[no-any-return]
        key = (id(self), name)
        if key not in _cache.values:
            _cache.values[key] = holder()
        return _cache.values[key]

    def assign(self: Any, new: Tensor) -> None:
        self.parametrizations[name].right_inverse(new)

    return property(value, assign)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Makes ``module.tensor_name`` the result of ``parametrization(original)``, and returns the module.

    The parameter or buffer becomes ``module.parametrizations.<name>.original`` (several of them if the
    parametrization's ``right_inverse`` returns several); another parametrization of the same name is computed from the
    result. A parametrization with a ``right_inverse`` allows to assign the tensor. Raises ValueError if there is no
    tensor of that name, or the result has another shape or dtype and ``unsafe`` is False.
    """
    if is_parametrized(module, tensor_name):
        holder: Any = module.parametrizations[tensor_name]
        before = holder()
        if not unsafe:
            _check(parametrization, before, before)
        if hasattr(parametrization, "right_inverse"):
            with ag.no_grad():
                inverse = parametrization.right_inverse(before)
            for step in reversed(list(holder)):
                inverse = step.right_inverse(inverse) if hasattr(step, "right_inverse") else inverse
            if holder.is_tensor:
                holder.original.write(inverse.detach())
        holder.append(parametrization)
        return module
    table: Any = module._parameters if tensor_name in module._parameters else module._buffers
    original = table.get(tensor_name)
    if original is None:
        raise ValueError(f"{type(module).__name__} has no parameter or buffer {tensor_name!r}")
    if not unsafe and not hasattr(parametrization, "right_inverse"):
        _check(parametrization, original, original)
    shape, dtype = original.shape, original.dtype
    made = ParametrizationList([parametrization], original, unsafe=True)
    if not unsafe:
        with ag.no_grad():
            result = made()
        if result.shape != shape or result.dtype != dtype:
            raise ValueError(
                f"{type(parametrization).__name__} changes {tensor_name!r} from {shape} {dtype} to {result.shape} "
                f"{result.dtype}; write unsafe=True"
            )
    del table[tensor_name]
    if not is_parametrized(module):
        _parametrized_class(module)
        object.__setattr__(module, "_modules", {**module._modules, "parametrizations": ModuleDict()})
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = made
    return module


def _check(parametrization: Module, tensor: Tensor, wanted: Tensor) -> None:
    with ag.no_grad():
        result = parametrization(tensor)
    if not isinstance(result, Tensor):
        raise ValueError(f"expected a tensor from {type(parametrization).__name__}, got {type(result).__name__}")
    if result.shape != wanted.shape or result.dtype != wanted.dtype:
        raise ValueError(
            f"{type(parametrization).__name__} changes {wanted.shape} {wanted.dtype} to {result.shape} "
            f"{result.dtype}; write unsafe=True"
        )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Returns True if the module has parametrizations, or one of ``tensor_name``."""
    holders: Any = module._modules.get("parametrizations")
    if not isinstance(holders, ModuleDict):
        return False
    return len(holders) > 0 if tensor_name is None else tensor_name in holders


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Removes the parametrizations of a tensor and returns the module: the tensor keeps its current value, or with
    ``leave_parametrized=False`` the value of its ``original``.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"{type(module).__name__} has no parametrization of {tensor_name!r}")
    holder: Any = module.parametrizations[tensor_name]
    originals = [part for part in holder._originals() if part is not None]
    if not leave_parametrized and not holder.is_tensor:
        raise ValueError("leave_parametrized=False needs a parametrization of one tensor")
    tensor = originals[0]
    if leave_parametrized:
        with ag.no_grad():
            value = _kept(holder())
        if holder.is_tensor and isinstance(tensor, ag.Parameter):
            tensor.data = value
        elif isinstance(tensor, ag.Parameter):
            tensor = ag.Parameter(value, tensor.requires_grad)
        else:
            tensor = value
    del module.parametrizations[tensor_name]
    delattr(type(module), tensor_name)
    if not len(module.parametrizations):
        del module._modules["parametrizations"]
        module.__class__ = type(module).__bases__[0]
    if isinstance(tensor, ag.Parameter):
        module.register_parameter(tensor_name, tensor)
    else:
        module.register_buffer(tensor_name, tensor)
    return module


def type_before_parametrizations(module: Module) -> type:
    """Returns the class of the module without its parametrizations."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Registers the parametrizations of ``from_module`` on ``to_module`` and copies their tensors; returns
    ``to_module``.
    """
    names = list(from_module.parametrizations) if is_parametrized(from_module) else []
    for name in names if tensor_name is None else [tensor_name]:
        holder: Any = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, ag.Parameter(_kept(holder())))
        for parametrization in holder:
            register_parametrization(to_module, name, parametrization, unsafe=True)
        other: Any = to_module.parametrizations[name]
        for mine, source in zip(other._originals(), holder._originals()):
            if mine is not None:
                mine.write(source.detach())
    return to_module
