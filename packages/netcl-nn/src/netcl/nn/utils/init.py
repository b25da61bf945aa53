"""skip_init: a layer without the work of its initial values."""

from __future__ import annotations

from typing import Any

from netcl.nn.init import skipped
from netcl.nn.module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Any:
    """Returns ``module_cls(*args, **kwargs)`` with parameters of undefined values."""
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise TypeError(f"skip_init: expected a class of modules, got {module_cls!r}")
    with skipped():
        return module_cls(*args, **kwargs)
