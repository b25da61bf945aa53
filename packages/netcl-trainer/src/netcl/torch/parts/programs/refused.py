"""Functions that need a network, a C++ compiler or CUDA: each raises one clear sentence when it is used."""

from __future__ import annotations

import os
import re
from typing import Any

from netcl.core.errors import UnsupportedError

TORCH_NAMES = ("HASH_REGEX", "_get_torch_home", "load_url")
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")

CUDA_HOME: str | None = None
ROCM_HOME: str | None = None


def _extension(*args: Any, **kwargs: Any) -> Any:
    raise UnsupportedError(
        "extensions in C++ or CUDA call PyTorch's own library; write the kernel with netcl.KernelSpec, which runs on "
        "any OpenCL device"
    )


CppExtension = _extension
CUDAExtension = _extension
SyclExtension = _extension
BuildExtension = _extension
load_inline = _extension


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


def _get_torch_home() -> str:
    """The folder that PyTorch keeps files in."""
    return os.environ.get("TORCH_HOME", os.path.expanduser("~/.cache/torch"))


def get_dir() -> str:
    """The folder that files of models would be in."""
    return os.path.join(_get_torch_home(), "hub")
