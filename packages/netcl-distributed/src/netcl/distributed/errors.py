"""RankFailedError, the error class of netcl.distributed."""

from __future__ import annotations

from typing import Any

from netcl.core.errors import NetclError

__all__ = ["RankFailedError"]


class RankFailedError(NetclError, RuntimeError):
    """A rank of the group died, raised, or ended before the collective; ``rank`` is its number."""

    def __init__(self, rank: int, message: str, *, op: str | None = None) -> None:
        super().__init__(message, op=op)
        self.rank = rank

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.rank, self.args[0]), dict(self.__dict__)
