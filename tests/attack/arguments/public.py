"""The public functions and methods of netcl, and arguments that fit them."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

MODULES = (
    "netcl",
    "netcl.ops",
    "netcl.linalg",
    "netcl.special",
    "netcl.sparse",
    "netcl.autograd",
    "netcl.amp",
    "netcl.nn",
    "netcl.nn.functional",
    "netcl.nn.init",
    "netcl.io",
    "netcl.distributions",
    "netcl.optim",
    "netcl.data",
    "netcl.data.transforms",
    "netcl.data.augment",
    "netcl.data.filters",
    "netcl.trainer",
    "netcl.runtime",
    "netcl.profiling",
)
# These end or stop the process, wait for another one, or run for minutes as they should.
LEFT_OUT = ("breakpoint", "main", "init_process_group", "set_num_threads", "profile", "autotune", "peaks", "doctor")

# Of a class that takes seconds to construct with its defaults: smaller ones.
SMALL = {"netcl.nn.Transformer": {"d_model": 8, "nhead": 2, "dim_feedforward": 8}}


def targets() -> dict[str, Callable[..., Any]]:
    """Returns public functions, classes and methods of tensors by their full names."""
    found: dict[str, Callable[..., Any]] = {}
    seen: set[int] = set()
    for name in MODULES:
        module: ModuleType = importlib.import_module(name)
        for public in getattr(module, "__all__", None) or dir(module):
            value = getattr(module, public, None)
            if public.startswith("_") or isinstance(value, ModuleType) or not callable(value) or id(value) in seen:
                continue
            if isinstance(value, type) and issubclass(value, BaseException):
                continue
            if str(getattr(value, "__module__", "")).startswith("netcl") and not public.startswith(LEFT_OUT):
                seen.add(id(value))
                found[f"{name}.{public}"] = value
    tensor = importlib.import_module("netcl").Tensor
    for public in dir(tensor):
        value = getattr(tensor, public, None)
        if not public.startswith("_") and callable(value):
            found[f"netcl.Tensor.{public}"] = value
    return dict(sorted(found.items()))


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Returns the parameters that a call may give, without ``*args`` of no known form; [] if there is no signature."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    return [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]


def fitting(name: str, annotation: str) -> Any:
    """Returns an argument that fits a parameter, by its annotation and its name."""
    import netcl as nc

    first = annotation.replace("netcl.core.tensor.tensor.", "").split("|")[0].strip().lstrip("'\"")
    for kinds, value in (
        (("Tensor",), lambda: nc.ones(4, 4)),
        (("int", "SupportsIndex"), lambda: 2),
        (("float", "Number", "Scalar"), lambda: 0.5),
        (("bool",), lambda: True),
        (("Module",), lambda: nc.nn.Linear(4, 4)),
        (("Callable",), lambda: lambda *args: args[0]),
        (("Sequence[Tensor", "Iterable[Tensor", "list[Tensor", "tuple[Tensor"), lambda: [nc.ones(4, 4)] * 2),
        (("Sequence[int", "tuple[int", "list[int", "Iterable[int"), lambda: (2, 2)),
    ):
        if first.startswith(kinds):
            return value()
    if "dtype" in name:
        return "float32"
    if name in ("shape", "size", "sizes", "output_size"):
        return (2, 2)
    if name in ("params", "parameters"):
        return list(nc.nn.Linear(4, 4).parameters())
    if name in ("model", "module", "layer"):
        return nc.nn.Linear(4, 4)
    if name in ("dim", "axis", "n", "k", "sections", "indices_or_sections", "chunks", "num", "steps"):
        return 1
    return nc.ones(4, 4)


def calls(name: str, function: Callable[..., Any], values: tuple[Any, ...]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields (text, call) with one argument of each call replaced by each of ``values``, and with all replaced."""
    given = parameters(function)
    least = [one for one in given if one.default is one.empty and one.kind is not one.KEYWORD_ONLY]
    for at, changed in enumerate(given):
        for value in values if changed.name != "self" else ():
            try:
                args = [fitting(one.name, str(one.annotation)) for one in least]
            except Exception:
                args = []
            keywords = {key: small for key, small in SMALL.get(name, {}).items() if key != changed.name}
            if at < len(least):
                args[at : at + 1] = [value]
            elif changed.kind in (changed.POSITIONAL_ONLY, changed.VAR_POSITIONAL):
                args.append(value)
            else:
                keywords[changed.name] = value
            text = f"{name}({'..., ' * bool(len(args) + len(keywords) > 1)}{changed.name}={value!r:.60})"
            yield text, lambda args=args, keywords=keywords: function(*args, **keywords)  # type: ignore[misc]
    for value in values if not least or least[0].name != "self" else ():
        text = f"{name}({', '.join([f'{value!r:.40}'] * len(least))})"
        yield text, lambda value=value: function(*[value] * len(least))  # type: ignore[misc]
