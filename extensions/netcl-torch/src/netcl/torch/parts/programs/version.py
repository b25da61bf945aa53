"""torch.version, and torch.__version__: the release of PyTorch whose names netcl.torch has."""

from __future__ import annotations

from typing import Any

from netcl.core.__about__ import __version__ as _netcl

TORCH_NAMES = ("cuda", "debug", "git_version", "hip", "parallel_info", "show", "xpu")


def _parts(text: str) -> tuple[int, ...]:
    numbers = []
    for part in text.partition("+")[0].split("."):
        digits = "".join(c for c in part if c.isdigit())
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


class TorchVersion(str):
    """A version as text, which compares by its numbers with versions, strings and tuples."""

    def _compared(self, other: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        theirs = tuple(int(n) for n in other) if isinstance(other, (tuple, list)) else _parts(str(other))
        ours = _parts(self)
        length = max(len(ours), len(theirs))
        return ours + (0,) * (length - len(ours)), theirs + (0,) * (length - len(theirs))

    def __lt__(self, other: Any) -> bool:
        ours, theirs = self._compared(other)
        return ours < theirs

    def __le__(self, other: Any) -> bool:
        ours, theirs = self._compared(other)
        return ours <= theirs

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __ge__(self, other: Any) -> bool:
        return not self < other


__version__ = TorchVersion(f"2.13.0+netcl{_netcl}")
debug: bool = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version: str = "unknown"


def show() -> str:
    """Returns the text of torch.__config__: the library, and the devices that compute."""
    from netcl.core import manager

    devices = "".join(f"  - {handle}\n" for handle in manager.select())
    return f"PyTorch's names over netcl, version {__version__}\n{devices}"


def parallel_info() -> str:
    """Returns the text of the threads: OpenCL and NumPy choose them."""
    return "threads are those of the OpenCL driver and of NumPy's BLAS\n"
