"""The fingerprint of training data: a text that differs if the data differ, at a bounded cost."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sized
from typing import Any

import numpy as np

from netcl.core import Tensor

# Arrays up to this size are hashed whole, larger ones by as many bytes of rows at equal distances.
_WHOLE = 16 << 20
# Batches of a list, and samples of a list of paths, that are hashed.
_ITEMS = 10_000
# Attributes that hold the data, by the conventions of netcl, PyTorch and torchvision.
_HOLDERS = ("arrays", "tensors", "data", "targets", "labels", "samples", "indices", "dataset", "datasets", "_data")


def data_fingerprint(loader: Any) -> str | None:
    """Returns class, number of samples and a hash of the data behind a loader, or of a list of batches; None if they
    are unknown, as for a generator.

    The data are ``fingerprint()`` of the data set if it has that method, else its arrays and lists. No sample is read,
    since reading one may draw random numbers.
    """
    data = getattr(loader, "dataset", loader if isinstance(loader, (list, tuple)) else None)
    if data is None:
        return None
    fingerprint = getattr(data, "fingerprint", None)
    if callable(fingerprint):
        return str(fingerprint())
    digest = _Digest()
    digest.add(data, 0)
    size = f" of {len(data)}" if isinstance(data, Sized) else ""
    return f"{type(data).__qualname__}{size}, {digest.text()}"


class _Digest:
    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._left = 4 * _WHOLE

    def text(self) -> str:
        return self._hash.hexdigest()[:16]

    def add(self, value: Any, depth: int) -> None:
        """Adds an array, a plain value, a list of them, or the attributes with usual names of a data set."""
        if isinstance(value, Tensor):
            self._note(f"{value.dtype}{value.shape}")
            if value.size * 8 <= _WHOLE:
                self._array(value.to_host())
        elif isinstance(value, np.ndarray):
            self._array(value)
        elif value is None or isinstance(value, (bool, int, float, np.generic)):
            self._note(repr(value))
        elif isinstance(value, (str, os.PathLike)):
            # The folder may be another one on the next machine.
            self._note(os.path.basename(os.fspath(value)))
        elif isinstance(value, (list, tuple)):
            self._note(f"{len(value)} items")
            for item in value[:_ITEMS]:
                self.add(item, depth + 1)
        else:
            self._note(type(value).__qualname__)
            for name in _HOLDERS if depth < 8 else ():
                held = getattr(value, "__dict__", {}).get(name)
                if held is not None:
                    self._note(name)
                    self.add(held, depth + 1)

    def _note(self, text: str) -> None:
        self._hash.update(text.encode("utf-8", "surrogatepass") + b"\0")

    def _array(self, array: np.ndarray[Any, Any]) -> None:
        self._note(f"{array.dtype.str}{array.shape}")
        if array.dtype.hasobject or not array.size or self._left <= 0:
            return
        if array.nbytes > _WHOLE and array.ndim:
            rows = max(1, _WHOLE // max(1, array.nbytes // len(array)))
            array = array[np.linspace(0, len(array) - 1, min(rows, len(array))).astype(np.int64)]
        self._left -= array.nbytes
        self._hash.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
