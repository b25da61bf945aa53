"""The hash of a file's contents, computed in the background while the file is read or written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from netcl.io.background import BackgroundWorker


class ContentHash:
    """SHA-256 over keys, dtypes, shapes and bytes of the arrays, and finally over the JSON. Use it in a
    ``with`` block.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._worker = BackgroundWorker(self._hash.update, "netcl-hash")

    def __enter__(self) -> ContentHash:
        return self

    def __exit__(self, *raised: object) -> None:
        self._worker.__exit__(*raised)

    def update(self, data: Any) -> None:
        """Adds bytes; they must not change before ``wait`` returns."""
        self._worker.submit(data)

    def wait(self) -> None:
        """Waits until all bytes are hashed."""
        self._worker.wait()

    def header(self, key: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        """Adds the key, dtype and shape that precede an array's bytes."""
        self.update(f"{key}\0{dtype.str}\0{shape}\0".encode())

    def with_meta(self, meta: Mapping[str, Any]) -> str:
        """Returns the hash of everything added and of ``meta`` without its entry for the hash."""
        self.wait()
        plain = {key: value for key, value in meta.items() if key != "sha256"}
        self._hash.update(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode())
        return self._hash.hexdigest()
