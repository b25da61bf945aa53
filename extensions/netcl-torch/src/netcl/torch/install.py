"""Makes ``import torch`` of this process mean netcl.torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from types import ModuleType
from typing import Any

from netcl.core.device import free_torch_name, use_pytorch_names
from netcl.core.tensor.generator import default_generator
from netcl.torch import tree

_COMPILED = {
    "torchaudio": "it calls PyTorch's own library; read files with scipy.io.wavfile, and compute spectra with "
    "scipy.signal (torch.stft needs complex dtypes)",
    "torchtext": "it calls PyTorch's own library, and is no longer developed; split texts in Python",
    "torchvision._C": "it calls PyTorch's own library",
}

# Classes that libraries recognize by the text of their type, such as tensorboardX.
_HOMES = (
    *(("torch", name) for name in ("Tensor", "Size", "device", "dtype")),
    ("torch._C", "Generator"),
    ("torch.nn.parameter", "Parameter"),
    ("torch.autograd.function", "Function"),
    ("torch.autograd.function", "FunctionCtx"),
    ("torch.amp.grad_scaler", "GradScaler"),
    ("torch.amp.autocast_mode", "autocast"),
    ("torch.storage", "TypedStorage"),
    ("torch.storage", "UntypedStorage"),
)


class _Metadata(Distribution):
    """The metadata of PyTorch or torchvision for ``importlib.metadata``: name and release."""

    def __init__(self, name: str, version: str) -> None:
        self._texts = {
            "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            "top_level.txt": f"{name}\n",
        }

    def read_text(self, filename: str) -> str | None:
        """Returns the text of a file of the metadata, None for others."""
        return self._texts.get(filename)

    def locate_file(self, path: Any) -> Any:
        """Returns the path itself: there are no files."""
        return path


class _Absent(DistributionFinder):
    """A finder that says which modules of PyTorch netcl.torch lacks, and that has PyTorch's metadata."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns None for modules of others, and for a program that asks if there is a module; raises
        ModuleNotFoundError for an import of a module of PyTorch, or of a library that is compiled for it.
        """
        if not (name in _COMPILED or name.startswith("torch.")) or _is_question():
            return None
        if name in _COMPILED:
            raise ModuleNotFoundError(f"No module named {name!r} in netcl: {_COMPILED[name]}", name=name)
        tree.missing[name] = None
        raise ModuleNotFoundError(tree.reason_of_module(name), name=name)

    def find_distributions(self, context: Any = None) -> Iterator[Distribution]:
        """Yields the metadata of PyTorch and torchvision, or of the one that is asked for."""
        versions = {
            "torch": tree.loaded("netcl.torch.parts.programs.version:__version__"),
            "torchvision": tree.loaded("netcl.torch_vision:__version__"),
        }
        for name, version in versions.items():
            if context is None or context.name in (None, name):
                yield _Metadata(name, version)


def _is_question() -> bool:
    """True if ``find_spec`` is called by ``importlib.util.find_spec``, not by an import."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") == "importlib._bootstrap":
        frame = frame.f_back
    return frame.f_globals.get("__name__") == "importlib.util"


class _Torchvision(Loader):
    """A finder, and loader, of torchvision's layout over netcl: torchvision itself needs PyTorch's own library."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of torchvision, else None."""
        return ModuleSpec(name, self, is_package=True) if name == "torchvision" else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Puts the modules in their places and returns the first."""
        modules: dict[str, ModuleType] = import_module("netcl.torch_vision").modules(sys.modules[tree.ROOT])
        sys.modules.update(modules)
        return modules["torchvision"]

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the module is complete."""


_finder = _Absent()
_torchvision = _Torchvision()


def install() -> None:
    """Makes ``import torch`` of this process mean netcl.torch, with its submodules, which get PyTorch's names, and
    ``import torchvision`` netcl.torch_vision. Gives the names of devices (``netcl.core.device.use_pytorch_names``) and
    the seed of the process's generator (``Generator.numbers``) PyTorch's meaning.

    May be called again. Raises RuntimeError if PyTorch itself has been imported, unless by a netcl-core that computes
    by it (netcl-core-torch): PyTorch's modules are then found by that core and by PyTorch alone.
    """
    loaded = sys.modules.get("torch")
    if loaded is not None and loaded is not sys.modules[tree.ROOT] and not free_torch_name():
        raise RuntimeError("install: PyTorch itself has been imported; call netcl.torch.install() before it is")
    for place, module in tree.modules().items():
        sys.modules[place] = module
        module.__name__ = place
    for place, name in _HOMES:
        kind = tree.find(place, name)
        kind.__module__, kind.__name__, kind.__qualname__ = place, name, name
    tree.move_homes()
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
        sys.meta_path.insert(0, _torchvision)
    use_pytorch_names()
    default_generator.numbers = "mt19937"
