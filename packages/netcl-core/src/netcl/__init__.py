"""netcl: the doors to the installed layers, opened when a name is first used."""

from __future__ import annotations

from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

# Folders named netcl/ elsewhere on sys.path belong to the package too; those added to sys.path later do not.
__path__ = extend_path(__path__, __name__)

if TYPE_CHECKING:
    from netcl.core import Tensor as Tensor
    from netcl.core import manager as manager
    from netcl.core.__about__ import __version__ as __version__
    from netcl.core.device import device as device
    from netcl.core.kernels.primitives import KernelSpec as KernelSpec
    from netcl.ops import *  # noqa: F403

_NAMES = {
    "Tensor": "netcl.core",
    "manager": "netcl.core",
    "device": "netcl.core.device",
    "KernelSpec": "netcl.core.kernels.primitives",
    "__version__": "netcl.core.__about__",
}

_SUBPACKAGES = {
    "core": "netcl-core",
    "ops": "netcl-core",
    "linalg": "netcl-core",
    "runtime": "netcl-core",
    "profiling": "netcl-core",
    "autograd": "netcl-autograd",
    "amp": "netcl-autograd",
    "nn": "netcl-nn",
    "io": "netcl-nn",
    "optim": "netcl-optim",
    "data": "netcl-data",
    "distributed": "netcl-distributed",
    "trainer": "netcl-trainer",
}


def __getattr__(name: str) -> Any:
    """Return a subpackage, a shortcut or an op of `netcl.ops`; AttributeError names a missing distribution."""
    from importlib import import_module

    value: Any
    if name in _SUBPACKAGES:
        try:
            value = import_module(f"netcl.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"netcl.{name}":
                raise
            raise AttributeError(f"netcl.{name} is not installed: pip install {_SUBPACKAGES[name]}") from None
    elif name in _NAMES:
        value = getattr(import_module(_NAMES[name]), name)
    elif not name.startswith("_") and name in import_module("netcl.ops").__all__:
        value = getattr(import_module("netcl.ops"), name)
    else:
        raise AttributeError(f"module 'netcl' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_SUBPACKAGES})
