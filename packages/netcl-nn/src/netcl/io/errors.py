"""CheckpointError, the error of model files."""

from __future__ import annotations

import os

from netcl.core.errors import NetclError


class CheckpointError(NetclError, RuntimeError):
    """A model file could not be saved, or is damaged or unsafe; ``path`` is the file, ``bytes`` the size in question,
    None if unknown. ``replaced`` is True if the new file is in place and only its folder could not be synced.
    """

    def __init__(
        self, message: str, path: str | os.PathLike[str], bytes: int | None = None, *, replaced: bool = False
    ) -> None:
        super().__init__(f"{os.fspath(path)}: {message}")
        self.path: str = os.fspath(path)
        self.bytes = bytes
        self.replaced: bool = replaced
