"""CheckpointError, the error of model files."""

from __future__ import annotations

import os
from typing import Any

from netcl.core.errors import NetclError


class CheckpointError(NetclError, RuntimeError):
    """A model file could not be saved, or is damaged or unsafe; ``path`` is the file, ``bytes`` the size in question,
    None if unknown. ``replaced`` is True if the new file is in place and only its folder could not be synced.

    If the system refuses to open or to write the file (``cause``), the error is also an OSError of that kind, such as
    FileNotFoundError, with its ``errno`` and ``filename``.
    """

    # Of an OSError alone.
    errno: int | None
    strerror: str | None
    filename: str

    def __new__(cls, *args: Any, cause: BaseException | None = None, **kwargs: Any) -> CheckpointError:
        if not isinstance(cause, OSError):
            return super().__new__(cls)
        kind = next(candidate for candidate in _KINDS if isinstance(cause, candidate))
        return OSError.__new__(_KINDS[kind])

    def __init__(
        self,
        message: str,
        path: str | os.PathLike[str],
        bytes: int | None = None,
        *,
        replaced: bool = False,
        cause: BaseException | None = None,
    ) -> None:
        super().__init__(f"{os.fspath(path)}: {message}")
        self.path: str = os.fspath(path)
        self.bytes = bytes
        self.replaced: bool = replaced
        if isinstance(cause, OSError):
            self.errno, self.strerror, self.filename = cause.errno, cause.strerror, self.path

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        number = getattr(self, "errno", None)
        return _again, (self.args[0], self.path, self.bytes, self.replaced, number)


def _again(text: str, path: str, bytes: int | None, replaced: bool, number: int | None) -> CheckpointError:
    """Returns the error that was pickled."""
    cause = None if number is None else OSError(number, os.strerror(number))
    return CheckpointError(text.removeprefix(f"{path}: "), path, bytes, replaced=replaced, cause=cause)


# By the error of the system, most special first.
_KINDS: dict[type[OSError], type[CheckpointError]] = {
    kind: type("CheckpointError", (CheckpointError, kind), {"__module__": __name__, "__doc__": CheckpointError.__doc__})
    for kind in (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError, OSError)
}
