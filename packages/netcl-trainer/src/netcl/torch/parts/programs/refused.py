"""Functions that need a network, a C++ compiler or CUDA: each raises one clear sentence when it is used."""

from __future__ import annotations

from typing import Any

from netcl.core.errors import UnsupportedError

TORCH_NAMES = ("load_url",)

CUDA_HOME: str | None = None
ROCM_HOME: str | None = None


def _extension(*args: Any, **kwargs: Any) -> Any:
    raise UnsupportedError(
        "extensions in C++ or CUDA call PyTorch's own library; write the kernel with netcl.KernelSpec, which runs on "
        "any OpenCL device"
    )


CppExtension = CUDAExtension = SyclExtension = load_inline = BuildExtension = _extension


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


def get_dir() -> str:
    """The folder that files of models would be in."""
    import os

    return os.path.join(os.environ.get("TORCH_HOME", os.path.expanduser("~/.cache/torch")), "hub")
