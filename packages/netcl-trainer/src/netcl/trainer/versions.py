"""The versions of Python, netcl's distributions, NumPy and pyopencl."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from functools import cache

from netcl.trainer.extensions import distributions

_DISTRIBUTIONS = (
    *(f"netcl-{part}" for part in ("core", "autograd", "nn", "optim", "data", "distributed", "trainer")),
    "numpy",
    "pyopencl",
)


def versions() -> list[str]:
    """Returns ``name version`` of each installed distribution, Python with its system first."""
    lines = [f"Python {platform.python_version()} on {platform.platform()}"]
    for name in dict.fromkeys((*_DISTRIBUTIONS, *distributions())):
        version = _version(name)
        if version is not None:
            lines.append(f"{name} {version}")
    return lines


@cache
def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        # Distributions that are only on the path are not installed, but know their version.
        about = f"netcl.{name.removeprefix('netcl-')}.__about__"
        module = sys.modules.get(about) if name.startswith("netcl-") else None
        return getattr(module, "__version__", None)


def netcl_versions() -> dict[str, str]:
    """Returns the versions of the installed distributions of netcl by name."""
    by_name = {name: _version(name) for name in _DISTRIBUTIONS if name.startswith("netcl-")}
    return {name: version for name, version in by_name.items() if version is not None}
