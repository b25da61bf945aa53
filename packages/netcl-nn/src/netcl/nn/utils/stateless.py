"""functional_call: a call of a module with other tensors in place of its parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from netcl.core import Tensor
from netcl.nn.module import Module


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Returns ``module(*args, **kwargs)`` computed with the tensors of the mapping in place of the parameters and
    buffers of these dotted names; gradients flow to them. The module is unchanged afterwards.

    ``tie_weights``: a tensor that has several names is replaced under all of them. ``strict``: every parameter and
    buffer is in the mapping. Raises KeyError for names that the module lacks.
    """
    dicts = (
        [parameter_and_buffer_dicts]
        if isinstance(parameter_and_buffer_dicts, Mapping)
        else (list(parameter_and_buffer_dicts))
    )
    values: dict[str, Tensor] = {}
    for state in dicts:
        if doubled := values.keys() & state.keys():
            raise ValueError(f"functional_call: {sorted(doubled)} are in several of the mappings")
        values.update(state)
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, values, tie_weights, strict):
        return module(*arguments, **dict(kwargs or {}))


@contextmanager
def _replaced(module: Module, values: Mapping[str, Tensor], tie_weights: bool, strict: bool) -> Iterator[None]:
    places: dict[str, tuple[dict[str, Any], str]] = {}
    for path, holder in module.named_modules(None, "", False):
        tables: tuple[dict[str, Any], ...] = (holder._parameters, holder._buffers)
        for table in tables:
            for name, tensor in table.items():
                if tensor is not None:
                    places[f"{path}.{name}" if path else name] = (table, name)
    if unknown := values.keys() - places.keys():
        raise KeyError(f"functional_call: {type(module).__name__} has no {sorted(unknown)}")
    if strict and (missing := places.keys() - values.keys()):
        raise RuntimeError(f"functional_call: the mapping lacks {sorted(missing)}")
    by_tensor = {id(table[name]): values[key] for key, (table, name) in places.items() if key in values}
    replaced = []
    for key, (table, name) in places.items():
        new = values.get(key, by_tensor.get(id(table[name])) if tie_weights else None)
        if new is not None:
            replaced.append((table, name, table[name], new))
    try:
        for table, name, _, new in replaced:
            table[name] = new
        yield
    finally:
        for table, name, old, _ in replaced:
            table[name] = old
