"""Functions that need a network, a C++ compiler or CUDA: each raises one clear sentence when it is used."""

from __future__ import annotations

import os
import re
from typing import Any, NoReturn

from netcl.core.errors import UnsupportedError
from netcl.torch.parts.programs.library import Namespace

TORCH_NAMES = ("BuildExtension", "HASH_REGEX", "_get_torch_home", "include_paths", "library_paths", "load_url")
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")

_folder: str | None = None
CUDA_HOME: str | None = None
ROCM_HOME: str | None = None


def _extension(*args: Any, **kwargs: Any) -> NoReturn:
    raise UnsupportedError(
        "extensions in C++ or CUDA call PyTorch's own library; write the kernel with netcl.KernelSpec, which runs on "
        "any OpenCL device"
    )


CppExtension = _extension
CUDAExtension = _extension
SyclExtension = _extension
load_inline = _extension
include_paths = _extension
library_paths = _extension


class BuildExtension:
    """The command that builds extensions, for ``cmdclass`` and as a base class; refused when it is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _extension()

    @classmethod
    def with_options(cls, **options: Any) -> NoReturn:
        """Refused: raises UnsupportedError."""
        _extension()


class Operators:
    """torch.ops and torch.classes: operators of ``torch.library``; extensions have none."""

    def __init__(self, place: str) -> None:
        self._place = place

    def load_library(self, path: Any) -> NoReturn:
        """Refused: raises UnsupportedError."""
        _extension()

    def __getattr__(self, name: str) -> Any:
        if self._place == "torch.ops" and not name.startswith("__"):
            return Namespace(name)
        raise AttributeError(
            f"{self._place}.{name} is not in netcl: operators of extensions are compiled for PyTorch's own library; "
            "write torch's functions, or a kernel with netcl.KernelSpec",
            name=name,
            obj=self,
        )


ops: Operators = Operators("torch.ops")
classes: Operators = Operators("torch.classes")


def load_state_dict_from_url(url: str, *args: Any, **kwargs: Any) -> Any:
    """Raises UnsupportedError: files are read from the disk only."""
    raise UnsupportedError(f"nothing is downloaded; fetch {url} yourself and write torch.load(path)")


load_url = load_state_dict_from_url


def download_url_to_file(url: str, *args: Any, **kwargs: Any) -> None:
    """Raises UnsupportedError: nothing is downloaded."""
    load_state_dict_from_url(url)


def load(*args: Any, **kwargs: Any) -> Any:
    """Raises UnsupportedError: no repository of models is loaded."""
    raise UnsupportedError("torch.hub downloads code and runs it; write the model, and torch.load its state_dict")


list = load
help = load


def _get_torch_home() -> str:
    """The folder that PyTorch keeps files in."""
    return os.environ.get("TORCH_HOME", os.path.expanduser("~/.cache/torch"))


def get_dir() -> str:
    """The folder that files of models would be in."""
    return _folder or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Sets the folder of ``get_dir``."""
    global _folder
    _folder = os.path.expanduser(d)
