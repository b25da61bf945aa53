"""torch.compiler and torch._dynamo: the fusion of ops needs no hints."""

from __future__ import annotations

from typing import Any

from netcl.torch.tree import TorchModule

TORCH_NAMES = ("config", "mark_static_address")


class Config(TorchModule):
    """torch._dynamo.config: settings are kept and change nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Returns the function as it is; a decorator with options."""
    return fn if fn is not None else lambda function: function


allow_in_graph = disable
assume_constant_result = disable


def reset() -> None:
    """Does nothing: compiled functions belong to their callers."""


def cudagraph_mark_step_begin() -> None:
    """Does nothing: a replay never overwrites results that are in use."""


def is_compiling() -> bool:
    """False: a compiled function runs as it is."""
    return False


is_dynamo_compiling = is_compiling
is_exporting = is_compiling


def mark_dynamic(*args: Any, **kwargs: Any) -> None:
    """Does nothing: shapes may change from call to call."""


maybe_mark_dynamic = mark_dynamic
mark_static = mark_dynamic
mark_static_address = mark_dynamic


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """One, which fuses ops."""
    return ["netcl"]
