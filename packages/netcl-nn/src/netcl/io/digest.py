"""The hash of a file's contents, computed in a second thread while the first reads or writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from netcl.io.behind import Behind


class Digest:
    """SHA-256 over keys, dtypes, shapes and bytes in turn, and at last over the JSON. Use it in a ``with`` block."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._behind = Behind(self._hash.update, "netcl-hash")

    def __enter__(self) -> Digest:
        return self

    def __exit__(self, *raised: object) -> None:
        self._behind.__exit__(*raised)

    def update(self, data: Any) -> None:
        """Takes bytes in; they must not change before ``settle``."""
        self._behind.take(data)

    def settle(self) -> None:
        """Waits until all bytes are hashed."""
        self._behind.settle()

    def header(self, key: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        """Takes in what precedes an array's bytes."""
        self.update(f"{key}\0{dtype.str}\0{shape}\0".encode())

    def with_meta(self, meta: Mapping[str, Any]) -> str:
        """The hash of all that came, and of ``meta`` without the hash that it holds."""
        self.settle()
        plain = {key: value for key, value in meta.items() if key != "sha256"}
        self._hash.update(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode())
        return self._hash.hexdigest()
