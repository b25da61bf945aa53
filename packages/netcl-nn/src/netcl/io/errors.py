"""The error of files that cannot be written, read or trusted."""

from __future__ import annotations

import os

from netcl.core.errors import NetclError


class CheckpointError(NetclError, RuntimeError):
    """A model file could not be saved or is not to be trusted; ``path`` is the file, ``bytes`` the size at stake,
    None where unknown.
    """

    def __init__(self, message: str, path: str | os.PathLike[str], bytes: int | None = None) -> None:
        super().__init__(f"{os.fspath(path)}: {message}")
        self.path = os.fspath(path)
        self.bytes = bytes
