"""Checks, when a layer is imported, the versions of the layers below it; each core has this file next to the front.

It uses the standard library alone and imports no layer, so that it works if netcl-core has no other file that fits.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from types import TracebackType

_REQUIREMENT = re.compile(r"netcl-(\w+)>=([\d.]+),<([\d.]+)")
_LAYERS = ("core", "autograd", "nn", "optim", "data", "distributed", "trainer")


def repair() -> str:
    """Returns the commands that repair all layers after the unrelated project named netcl was installed over them. pip
    lists each layer as installed, and has replaced or removed files of any of them.
    """
    from importlib.metadata import distributions

    names = {(distribution.metadata["Name"] or "").lower().replace("_", "-") for distribution in distributions()}
    layers = [f"netcl-{layer}" for layer in _LAYERS]
    extensions = sorted(name for name in names if name.startswith("netcl-") and name not in layers)
    again = " ".join([*(name for name in layers if name in names or name == "netcl-core"), *extensions])
    return f"pip uninstall netcl, then pip install --force-reinstall --no-deps {again}"


def refuse_stranger(name: str) -> None:
    """Raises ImportError for ``name`` if ``netcl/__init__.py`` is that of the unrelated project named netcl."""
    front = sys.modules.get("netcl")
    if getattr(front, "__file__", None) and not hasattr(front, "MissingDistributionError"):
        raise ImportError(f"{name} cannot be imported: {_stranger()}", name=name)


def _stranger() -> str:
    return f"the installed distribution named netcl is another project, which has files under netcl/ too: {repair()}"


class Checked:
    """``with Checked("nn"):`` around the imports of a layer: does ``check()``; a failing import names versions."""

    def __init__(self, layer: str) -> None:
        self.layer: str = layer

    def check(self) -> None:
        """Raises ImportError if a layer of ``REQUIRES`` in ``__about__`` is missing or not in its range."""
        refuse_stranger(f"netcl.{self.layer}")
        for requirement in self._about("REQUIRES"):
            sibling, low, high = _parts(requirement)
            installed = version_of(sibling)
            needs = f"netcl-{self.layer} {self._about('__version__')} needs {requirement}"
            if installed is None:
                fault = f"{needs}, and its files are not there: {_repair(sibling, requirement)}"
                raise ImportError(fault, name=f"netcl.{sibling}")
            if not _release(low) <= _release(installed) < _release(high):
                raise ImportError(
                    f"{needs}, and netcl-{sibling} {installed} is installed: pip install '{requirement}', or "
                    f"pip install --upgrade netcl-{self.layer}",
                    name=f"netcl.{sibling}",
                )

    def __enter__(self) -> None:
        self.check()
        import_module("netcl.core")  # first, as it refuses subinterpreters before NumPy is imported

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if not isinstance(error, ImportError) or not (error.name or "").startswith("netcl."):
            return
        if error.msg.startswith("netcl-"):  # a layer below has named its versions
            return
        for requirement in self._about("REQUIRES"):
            sibling = _parts(requirement)[0]
            if _owner(error.name or "") == sibling:
                update = f"pip install --upgrade netcl-{sibling} netcl-{self.layer}"
                cure = _stranger() if _is_installed("netcl") else update
                raise ImportError(
                    f"netcl-{self.layer} {self._about('__version__')} does not fit netcl-{sibling} "
                    f"{version_of(sibling)}: {error.msg}: {cure}",
                    name=error.name,
                    path=error.path,
                ) from error

    def _about(self, name: str) -> str:
        return getattr(import_module(f"netcl.{self.layer}.__about__"), name)  # type: ignore[no-any-return]


def version_of(layer: str) -> str | None:
    """Returns the version of netcl-``layer`` from its ``__about__``, without an import of the layer; None if absent."""
    name = f"netcl.{layer}.__about__"
    about = sys.modules.get(name)
    if about is not None:
        return str(about.__version__)
    try:
        parent = find_spec(f"netcl.{layer}")
        spec = None if parent is None else PathFinder.find_spec(name, parent.submodule_search_locations)
        if spec is None or spec.loader is None:  # from an importer without paths, or not there
            return str(import_module(name).__version__)
    except ModuleNotFoundError:
        return None
    values: dict[str, str] = {}
    exec(spec.loader.get_code(name), values)  # type: ignore[attr-defined]
    return values.get("__version__")


def _parts(requirement: str) -> tuple[str, str, str]:
    match = _REQUIREMENT.fullmatch(requirement)
    if match is None:
        raise ValueError(f"expected netcl-<layer>>=<version>,<<version>, got {requirement!r}")
    return match[1], match[2], match[3]


def _release(version: str) -> tuple[int, ...]:
    """The numbers before a suffix: (0, 1, 0) of 0.1.0.dev0 and of 0.1.0+numpy."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(number) for number in match[0].split(".")) if match else ()


def _owner(module: str) -> str:
    """The layer that has a module: netcl-core has several subpackages, netcl-nn ``io`` and ``distributions`` too."""
    part = module.split(".")[1]
    owners: dict[str, str] = getattr(sys.modules["netcl"], "_SUBPACKAGES", {})
    return owners.get(part, part).removeprefix("netcl-")


def _repair(sibling: str, requirement: str) -> str:
    """The command that brings the files of a layer. pip takes one for installed that has metadata and no files."""
    if _is_installed("netcl"):
        return _stranger()
    if _is_installed(f"netcl-{sibling}"):
        return f"pip install --force-reinstall --no-deps netcl-{sibling}"
    return f"pip install '{requirement}'"


def _is_installed(distribution: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True
