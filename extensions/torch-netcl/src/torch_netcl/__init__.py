"""PyTorch with netcl as a device: ``torch.device("ocl")`` on any OpenCL device.

``import torch`` calls ``register`` by the entry point of the group ``torch.backends``: it names the device and leaves
netcl alone. The first call of an op on "ocl" loads netcl and all kernels.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

from torch_netcl.__about__ import __version__

__all__ = ["__version__", "register"]

LOWEST, BEYOND = (2, 11), (2, 15)


def register() -> None:
    """Names device "ocl" in this process; called by ``import torch``, and never raises.

    A torch outside of the range, a GPU that PyTorch itself uses, or another distribution that has the place of the
    private backend, leaves PyTorch as it is, with a warning that has the reason. ``torch_netcl.device.setup()`` raises
    it, but for the GPU.
    """
    try:
        from torch_netcl import device

        if device.has_own_gpu():
            raise RuntimeError(
                "next to a private backend PyTorch's backward passes on CUDA and ROCm end in an internal error; for a "
                "process that uses neither, write: from torch_netcl import device; device.setup()"
            )
        device.setup()
    except Exception as error:  # noqa: BLE001 - an error here would end every `import torch`
        global refused
        refused = error
        with contextlib.suppress(Warning):  # warnings that are errors
            warnings.warn(f"device 'ocl' is not there: {error}", stacklevel=2)


def overload(name: str) -> Any:
    """Returns the overload ``aten::NAME`` or ``aten::NAME.OVERLOAD`` of PyTorch."""
    import torch

    base, _, last = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), last or "default")


refused: Exception | None = None


def words(text: str) -> list[str]:
    """Returns the words of a text, for lists of names."""
    return text.split()


def numbers_of(version: str) -> tuple[int, ...]:
    """Returns the first two numbers of a version."""
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in version.split("+")[0].split(".")[:2])


def check_version(version: str) -> None:
    """Raises ImportError, with the line for pip, for a version of torch outside of the range."""
    if not LOWEST <= numbers_of(version) < BEYOND:
        low, high = (".".join(map(str, bound)) for bound in (LOWEST, BEYOND))
        raise ImportError(
            f"torch-netcl {__version__} works with torch from {low} to below {high}, got {version}; "
            f'write: pip install "torch>={low},<{high}"'
        )
