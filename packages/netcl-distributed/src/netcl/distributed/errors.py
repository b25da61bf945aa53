"""RankFailedError, and the error of ranks that call different collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl.core.errors import CollectiveMismatchError, NetclError


class RankFailedError(NetclError, RuntimeError):
    """A rank of the group died, raised, or ended before the collective; ``rank`` is its number."""

    def __init__(self, rank: int, message: str, *, op: str | None = None) -> None:
        super().__init__(message, op=op)
        self.rank = rank

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.rank, self.args[0]), dict(self.__dict__)


def mismatch(texts: Sequence[str]) -> CollectiveMismatchError:
    """Returns the error of ranks that called different collectives, with the call of each rank."""
    calls = "; ".join(f"rank {rank} called {text}" for rank, text in enumerate(texts))
    return CollectiveMismatchError(
        f"the ranks do not call the same collective: {calls}. Every rank must make the same calls in the same order, "
        "with equal shapes and dtypes"
    )
