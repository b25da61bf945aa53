"""Calls without a kernel: computed by PyTorch on the CPU, with one warning for each op.

TORCH_NETCL_FALLBACK says what happens: "warn" (the default), "quiet", or "error", which raises NotImplementedError.
A view is made from the strides that PyTorch gives a tensor without data.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from torch_netcl import memory

# Overloads without a kernel of PyTorch's on the CPU, as functions of others.
COMPOSED: dict[Any, Any] = {}
_warned: set[str] = set()
calls: dict[str, int] = {}  # the calls of each op that ran on the CPU


class FallbackWarning(UserWarning):
    """An op of device "ocl" ran on the CPU."""


def _mode() -> str:
    mode = os.environ.get("TORCH_NETCL_FALLBACK", "warn")
    if mode not in ("warn", "quiet", "error"):
        raise ValueError(f"TORCH_NETCL_FALLBACK: expected warn, quiet or error, got {mode!r}")
    return mode


# Arguments that may be on the CPU in a call of tensors of a device, as PyTorch's own devices take them.
_ANYWHERE = {"indices", "lengths", "targets", "input_lengths", "target_lengths"}


def _check_places(schema: Any, args: Any, kwargs: Any) -> None:
    """Raises PyTorch's RuntimeError if tensors of the device and of another one, but for numbers, are in a call."""
    names = [argument.name for argument in schema.arguments]
    values = [value for name, value in (*zip(names, args), *kwargs.items()) if name not in _ANYWHERE]
    tensors = [x for x in tree_leaves(values) if isinstance(x, torch.Tensor) and (x.dim() or is_ocl(x))]
    others = [x for x in tensors if not is_ocl(x)]
    if others and len(others) < len(tensors):
        raise memory.elsewhere(others[0])


def is_ocl(value: Any) -> bool:
    """True for a tensor on device "ocl"."""
    return isinstance(value, torch.Tensor) and value.device.type == "ocl"


def _noted(op: Any, why: Exception | None) -> None:
    name = str(op)
    mode = _mode()
    reason = "" if why is None else f" for these arguments ({why})"
    if mode == "error":
        raise NotImplementedError(
            f"{name} has no kernel on device 'ocl'{reason}; unset TORCH_NETCL_FALLBACK to run it on the CPU"
        )
    calls[name] = calls.get(name, 0) + 1
    if mode == "warn" and name not in _warned:
        _warned.add(name)
        warnings.warn(f"{name} has no kernel on device 'ocl'{reason} and runs on the CPU", FallbackWarning, 4)


def call(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns what ``op``, which has no kernel, gives on copies of its tensors on the CPU, with its writes copied
    back.
    """
    return after(None, op, args, kwargs)


def after(why: Exception | None, op: Any, args: Any, kwargs: Any) -> Any:
    """Returns the same for an op whose kernel has raised ``why``."""
    if any(r.alias_info is not None and not r.alias_info.is_write for r in op._schema.returns):
        return view(op, *args, **kwargs)
    result = on_cpu(op, args, kwargs)  # first, so that arguments that PyTorch refuses raise its own error
    _noted(op, why)
    return result


@memory.roomy
def on_cpu(op: Any, args: Any, kwargs: Any) -> Any:
    """Computes ``op`` on the CPU without a word."""
    from torch_netcl import random

    schema = op._schema
    _check_places(schema, args, kwargs)
    copies: dict[int, torch.Tensor] = {}
    writes = any(argument.alias_info is not None for argument in schema.arguments)

    def lowered(value: Any) -> Any:
        if is_ocl(value):
            if id(value) not in copies:
                copy = memory.to_cpu(value)
                copies[id(value)] = copy.clone() if writes else copy  # memory of NumPy cannot be resized
            return copies[id(value)]
        if isinstance(value, torch.device) and value.type == "ocl":
            return torch.device("cpu")
        return value

    moved, named = tree_map(lowered, (args, kwargs))
    for at, parameter in enumerate(schema.arguments):
        if parameter.name == "generator" and at >= len(args) and kwargs.get("generator") is None:
            named = {**named, "generator": random.HOST}
    numbers = any(type(value) in (int, float, bool, complex) and str(parameter.type) == "Tensor"
                  for value, parameter in zip(moved, schema.arguments))  # fmt: skip
    # A number in a tensor's place is PyTorch's to make.
    result = COMPOSED.get(op, op.overloadpacket if numbers else op)(*moved, **named)
    written: list[Any] = []
    for at, parameter in enumerate(schema.arguments):
        if parameter.alias_info is None or not parameter.alias_info.is_write:
            continue
        value = args[at] if at < len(args) else kwargs.get(parameter.name)
        for target in value if isinstance(value, (list, tuple)) else (value,):
            if is_ocl(target):
                if copies[id(target)].shape != target.shape:
                    resize(target, copies[id(target)].shape)
                memory.put_cpu(target, copies[id(target)])
                written.append(target)
    back = {id(copies[id(target)]): target for target in written}

    def raised(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return back[id(value)] if id(value) in back else memory.from_cpu(value)
        return value

    return tree_map(raised, result)


@memory.roomy
def resize(tensor: torch.Tensor, size: Any) -> torch.Tensor:
    """Gives ``tensor`` another shape, contiguous; the first elements stay if there is room, else they are copied."""
    count = torch.Size(size).numel()
    storage: Any = tensor.untyped_storage()
    offset = tensor.storage_offset()
    content = memory.retyped(tensor, storage)
    if content.size < offset + count:
        raw = memory.host_bytes(content)
        grown = torch.zeros((offset + count) * tensor.dtype.itemsize, dtype=torch.uint8).numpy()
        grown[: len(raw)] = raw
        memory.hold(tensor, memory.content_of(grown, tensor.dtype))
    strides = memory.contiguous_strides(tuple(size))
    set_geometry(tensor, tensor.untyped_storage(), offset, size, strides)
    return tensor


_set = torch.ops.aten.set_.source_Storage_storage_offset._op_dk


def set_geometry(tensor: torch.Tensor, storage: Any, offset: Any, size: Any, stride: Any) -> torch.Tensor:
    """Puts ``tensor`` on ``storage`` in place."""
    return _set(memory.META, tensor, storage, offset, size, stride)  # type: ignore[no-any-return]


def view(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns the view, or the views, that ``op`` makes of a tensor, on the same storage."""
    base = next(value for value in args if is_ocl(value))
    extent = base.untyped_storage().nbytes() // base.dtype.itemsize
    shadow = torch.empty(extent, dtype=base.dtype, device="meta")
    shadow = shadow.as_strided(base.shape, base.stride(), base.storage_offset())
    moved = [shadow if value is base else value for value in args]
    result = op(*moved, **kwargs)

    def placed(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.dtype is base.dtype:
            return memory.strided(base, value.shape, value.stride(), value.storage_offset())
        other = memory._create((0,), value.dtype)
        return set_geometry(other, base.untyped_storage(), value.storage_offset(), value.shape, value.stride())

    return tree_map(placed, result)
