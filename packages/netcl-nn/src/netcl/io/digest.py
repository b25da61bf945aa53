"""The hash of a file's contents, computed in a second thread while the first reads or writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np


class Digest:
    """SHA-256 over keys, dtypes, shapes and bytes in turn, and at last over the JSON. Use it in a ``with`` block.

    At most one piece waits behind the one that is being hashed, so no more than two are held.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._pool = ThreadPoolExecutor(1, "netcl-hash")
        self._running: list[Future[None]] = []

    def __enter__(self) -> Digest:
        return self

    def __exit__(self, *raised: object) -> None:
        self._pool.shutdown()

    def update(self, data: Any) -> None:
        """Takes bytes in; they must not change until the next but one call."""
        while len(self._running) > 1:
            self._running.pop(0).result()
        self._running.append(self._pool.submit(self._hash.update, data))

    def header(self, key: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        """Takes in what precedes an array's bytes."""
        self.update(f"{key}\0{dtype.str}\0{shape}\0".encode())

    def with_meta(self, meta: Mapping[str, Any]) -> str:
        """The hash of all that came, and of ``meta`` without the hash that it holds."""
        for waiting in self._running:
            waiting.result()
        plain = {key: value for key, value in meta.items() if key != "sha256"}
        self._hash.update(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode())
        return self._hash.hexdigest()
