"""Registers the table of rows with PyTorch: each row as its functional, in-place and ``out=`` overloads.

A kernel takes PyTorch's tensors as netcl's, calls the function of the row without gradients, and gives the results
back. Arguments that netcl refuses go to the CPU by ``fallback``; if PyTorch refuses them too, that is PyTorch's error.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import get_decompositions

import torch_netcl
from netcl.core.storage.views import ViewStorage
from netcl.core.tensor import Tensor
from netcl.ops import cast, clone
from torch_netcl import (
    attention,
    expressions,
    fallback,
    images,
    memory,
    optimizers,
    overload,
    products,
    random,
    recurrent,
    rows,
    views,
)
from torch_netcl.memory import DTYPES, FATAL, TORCH, give, put, take
from torch_netcl.rows import refuse

TABLE: dict[str, Callable[..., Any]] = {**rows.TABLE, **expressions.GRADIENTS, **images.TABLE}
DIRECT: dict[str, Callable[..., Any]] = {**views.TABLE, **random.TABLE, **attention.TABLE, **optimizers.TABLE}
registered: list[str] = []  # the overloads with kernels of this device
_library = torch.library.Library("aten", "IMPL")
_others = torch.library.Library("_", "IMPL")


def _number(tensor: torch.Tensor) -> Any:
    """Returns a 0-d tensor of the CPU as a number; raises RuntimeError for another tensor off the device."""
    if tensor.dim() or tensor.device.type != "cpu":
        raise memory.elsewhere(tensor)
    if tensor.dtype.is_complex:
        raise memory.NoKernel("a complex number")
    return tensor.item()


def _mixed(values: list[Any], positions: tuple[int, ...], originals: Any) -> None:
    """Converts the tensors of a call with numbers in tensors of the CPU to the dtype that PyTorch promotes to."""
    tensors = [originals[at] for at in positions if at < len(originals) and originals[at] is not None]
    if len(tensors) != 2:
        if len({x.dtype for x in tensors} - {torch.bool}) > 1:
            raise memory.NoKernel("numbers of several dtypes")
        return
    wanted = DTYPES.get(torch.result_type(*tensors))
    if wanted is None:
        raise memory.NoKernel("a dtype that the device has not")
    for at in positions:
        value = values[at]
        if isinstance(value, Tensor) and value.dtype is not wanted:
            values[at] = cast(value, dtype=wanted)


def _taken(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return take(value) if value.device.type == "ocl" else _number(value)
    if isinstance(value, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in value):
        return [_taken(item) for item in value]
    return value


def _moved(index: Any) -> Any:
    """Returns an index as netcl's, also one of the CPU, as PyTorch takes them."""
    return memory.to_netcl(index) if index is not None and index.device.type == "cpu" else _taken(index)


def _own(result: Any, values: Any) -> Any:
    """Returns ``result``, or a copy of it if it has the memory of an argument."""
    storage = result._storage
    for value in values:
        if type(value) is Tensor:
            if value._storage is storage:
                return clone(result)
        elif type(value) is list:
            result = _own(result, value)
    return result


def _given(result: Any, values: Any) -> Any:
    if type(result) is Tensor:
        return give(_own(result, values))
    if isinstance(result, (tuple, list)):
        return tuple([_given(item, values) for item in result])
    return result


def _alike(op: Any) -> tuple[int, ...]:
    """Returns the positions of the tensors that must have one dtype: not of indices, masks and classes."""
    name = op._schema.name.removeprefix("aten::").rstrip("_")
    places = enumerate(op._schema.arguments) if name in rows.ALIKE else ()
    others = {"index", "indices", "mask", "offsets", *(["target"] if "nll" in name else [])}
    return tuple(at for at, a in places if "Tensor" in str(a.type) and a.name not in others and not a.kwarg_only)


def _differ(values: Any, places: tuple[int, ...]) -> bool:
    """Returns True if the tensors at ``places`` have several dtypes."""
    return len({values[at].dtype for at in places if at < len(values) and hasattr(values[at], "dtype")}) > 1


class Call:
    """The conversion of the arguments of one overload."""

    __slots__ = ("alike", "indices", "keywords", "lists", "take", "tensors")

    def __init__(self, op: Any) -> None:
        arguments = op._schema.arguments
        kinds = [str(argument.type) for argument in arguments]
        self.take = products.operand if op._schema.name.removeprefix("aten::") in products.TABLE else take
        self.tensors = tuple(at for at, kind in enumerate(kinds) if kind in ("Tensor", "Optional[Tensor]"))
        self.lists = tuple(
            at for at, kind in enumerate(kinds) if kind.startswith(("List[", "Optional[List[")) and "Tensor" in kind
        )
        self.indices = tuple(at for at in self.lists if "Optional[Tensor]" in kinds[at])  # which may be on the CPU
        self.alike = _alike(op)
        self.keywords: bool = any(a.kwarg_only and "Tensor" in kind for a, kind in zip(arguments, kinds))

    def values(self, args: tuple[Any, ...]) -> list[Any]:
        """Returns the arguments with netcl's tensors."""
        values = list(args)
        mixed = False
        for at in self.tensors:
            if at >= len(values):
                break
            value = values[at]
            if isinstance(value, torch.Tensor):
                if value.device.type == "ocl":
                    values[at] = self.take(value)
                else:
                    values[at], mixed = _number(value), True
            elif isinstance(value, complex):  # a number of Python in a tensor's place
                raise memory.NoKernel("a complex number")
        if mixed:
            _mixed(values, self.tensors, args)
        for at in self.lists:
            if at < len(values) and values[at] is not None:
                move = _moved if at in self.indices else _taken
                values[at] = [move(item) for item in values[at]]
        return values

    def compute(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, list[Any]]:
        """Returns the result of the row, and its arguments."""
        taking = self.take
        try:  # most calls: tensors of the device, numbers and the like
            values = self.values(args) if self.lists else [v if type(v) in PLAIN else taking(v) for v in args]
        except (AttributeError, RuntimeError, memory.NoKernel):
            values = self.values(args)
        if self.alike and _differ(values, self.alike):
            refuse("tensors of several dtypes")
        if not kwargs:
            return function(*values), values
        if self.keywords:
            kwargs = {name: v if type(v) in PLAIN else _taken(v) for name, v in kwargs.items()}
            return function(*values, **kwargs), [*values, *kwargs.values()]
        return function(*values, **kwargs), values


PLAIN = frozenset((float, int, bool, str, list, type(None), torch.dtype))


def refused(error: Exception) -> bool:
    """Returns True if a kernel's error means that PyTorch shall compute, or raise, on the CPU."""
    if memory.is_full(error):
        raise torch.OutOfMemoryError(str(error)) from error
    return not (type(error) is RuntimeError or isinstance(error, FATAL))


def _guarded(op: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates the kernel of ``op``: what it refuses goes to the CPU."""

    def decorate(compute: Callable[..., Any]) -> Callable[..., Any]:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            try:
                return compute(*args, **kwargs)
            except Exception as error:
                if refused(error):
                    return fallback.after(error, op, args, kwargs)
                raise

        return kernel

    return decorate


def kernel_of(op: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the kernel of a functional overload."""
    compute = Call(op).compute

    def kernel(*args: Any, **kwargs: Any) -> Any:
        try:
            result, values = compute(function, args, kwargs)
            return _given(result, values)
        except Exception as error:
            if refused(error):
                return fallback.after(error, op, args, kwargs)
            raise

    return kernel


def _check_result(result: Any, target: torch.Tensor) -> None:
    made = TORCH[result.dtype]
    if made is not target.dtype and not torch.can_cast(made, target.dtype):
        names = {torch.float32: "Float", torch.float64: "Double", torch.int64: "Long"}
        one, other = (names.get(dtype, dtype) for dtype in (made, target.dtype))
        raise RuntimeError(f"result type {one} can't be cast to the desired output type {other}")


def in_place_of(op: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the kernel of an in-place overload: its first argument takes the result."""
    compute = Call(op).compute

    @_guarded(op)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        target = args[0]
        result, values = compute(function, args, kwargs)
        storage, before = target.untyped_storage(), values[0]
        if (
            type(before) is type(result) is Tensor
            and (result.shape == before.shape and result.dtype is before.dtype)
            and (before._storage is storage.content._storage and result._storage is not before._storage)  # type: ignore[attr-defined]
            and type(result._storage) is not ViewStorage
        ):  # a whole tensor
            storage.content = result  # type: ignore[attr-defined]
            return target
        if result.shape != target.shape:
            raise RuntimeError(
                f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(result.shape)}"
            )
        _check_result(result, target)
        put(target, _own(result, values))
        return target

    return kernel


def out_of(op: Any, function: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    """Returns the kernel of an ``out=`` overload, whose last arguments ``names`` take the results."""
    call = Call(op)

    @_guarded(op)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        targets = [kwargs[name] for name in names]
        rest = {name: value for name, value in kwargs.items() if name not in names}
        for target in targets:
            if target.device.type != "ocl":
                raise memory.elsewhere(target)
        result, values = call.compute(function, args, rest)
        results = result if isinstance(result, (tuple, list)) else (result,)
        for target, made in zip(targets, results):
            _check_result(made, target)
            _fit(target, made.shape)
        for target, made in zip(targets, results):
            put(target, _own(made, values))
        return targets[0] if len(targets) == 1 else tuple(targets)

    return kernel


def _fit(target: torch.Tensor, shape: Any) -> None:
    if target.shape == shape:
        return
    if target.numel():
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(target.shape)}, which does not "
            f"match the required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch "
            "release outputs will not be resized unless they have zero elements.",
            stacklevel=4,
        )
    fallback.resize(target, shape)


def _signature(arguments: Any, without: tuple[str, ...] = ()) -> tuple[Any, ...]:
    return tuple((a.name, str(a.type)) for a in arguments if a.name not in without)


def _forms(op: Any) -> list[tuple[str, str, tuple[str, ...]]]:
    """Returns the in-place and ``out=`` overloads with the arguments of ``op``: (kind, name, out names)."""
    base = op._schema.name.removeprefix("aten::")
    wanted = _signature(op._schema.arguments)
    forms = []
    for kind, packet in (("out", base), ("in", base + "_")):
        for name in getattr(torch.ops.aten, packet).overloads() if hasattr(torch.ops.aten, packet) else ():
            schema = getattr(getattr(torch.ops.aten, packet), name)._schema
            outs = tuple(a.name for a in schema.arguments if a.is_out)
            if bool(outs) == (kind == "out") and _signature(schema.arguments, outs) == wanted:
                forms.append((kind, packet if name == "default" else f"{packet}.{name}", outs))
    return forms


def implement(name: str, function: Callable[..., Any]) -> None:
    """Registers ``function``, which takes PyTorch's tensors, as the kernel of an overload on this device."""
    _library.impl(name, function, "PrivateUse1")
    registered.append(name)


def _add(name: str, function: Callable[..., Any]) -> None:
    op = overload(name)
    implement(name, kernel_of(op, function))
    for kind, other, outs in _forms(op):
        if other in TABLE or other in DIRECT:
            continue
        made = out_of(overload(other), function, outs) if kind == "out" else in_place_of(overload(other), function)
        implement(other, made)


def _decompose(name: str) -> None:
    """Registers PyTorch's decomposition of an overload without a row, and its forms, which copy the result."""
    op = overload(name)
    decomposed: Any = get_decompositions([op]).get(op)
    if decomposed is None or name in registered:
        return
    alike = _alike(op)

    @_guarded(op)
    def function(*args: Any, **kwargs: Any) -> Any:
        return refuse("tensors of several dtypes") if _differ(args, alike) else decomposed(*args, **kwargs)

    def written(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return x.copy_(function(x, *args, **kwargs))

    def out(*args: Any, out: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        made = function(*args, **kwargs)
        _fit(out, made.shape)
        return out.copy_(made)

    implement(name, function)
    for kind, other, names in _forms(op):
        if other not in registered and names in ((), ("out",)):
            implement(other, out if kind == "out" else written)


def register() -> None:
    """Registers all kernels; called once, at the first use of the device."""
    for name, function in DIRECT.items():
        implement(name, function)
    for name, function in (recurrent.TABLE | attention.FORMULAS).items():  # in the place of PyTorch's own formulas
        implement(name, function)
        _library.impl(name, function, "AutogradPrivateUse1")
    has_linear = torch_netcl.numbers_of(torch.__version__) >= (2, 12)  # 2.11 refuses its gradient of complex numbers
    for name, function in TABLE.items():
        if has_linear or name != "linear":
            _add(name, function)
    for name in rows.DECOMPOSED:
        _decompose(name)
    optimizers.register()
    fallback.COMPOSED[torch.ops.aten.linear_backward.default] = products.linear_backward_of
    _others.fallback(fallback.call, "PrivateUse1")
