"""Budget, the limits within which a file is read, and Meter, which counts one file's use of them.

A reader of netcl.io takes this Budget too, and a reader of this package takes that of netcl.io.
"""

from __future__ import annotations

from dataclasses import dataclass

from netcl.data.errors import DataFileError


class BudgetError(DataFileError):
    """A file asks for more bytes, items, time or depth than its reader's budget allows."""


@dataclass(frozen=True)
class Budget:
    """The limits of a reader, beyond what a file of the same size needs; pass a larger one for a file that you trust.

    Attributes:
        bytes: memory in addition to a small multiple of the file's size (2; 16 for compressed files).
        items: instructions of a pickle, nodes, layers and the like in addition to one for every 8 bytes of the file.
        seconds: estimated processor time to compute constants and to build layers, in addition to one second for every
            32 MB of the file; an estimate, so that a file is not refused because the machine is slow or busy.
        depth: levels of values or layers within each other.
    """

    bytes: int = 240 << 20
    items: int = 1_000_000
    seconds: float = 2.0
    depth: int = 200

    def meter(self, size: int, factor: int = 2) -> Meter:
        """Returns the counter for a file of ``size`` bytes, which may take ``factor`` times that in memory."""
        return Meter(self, size, factor)


class Meter:
    """Counts down what one file may use; its methods raise BudgetError when nothing is left."""

    def __init__(self, budget: Budget, size: int, factor: int) -> None:
        self.budget: Budget = budget
        self._left: dict[str, float] = {
            "bytes": budget.bytes + factor * size,
            "items": budget.items + size // 8,
            "seconds": budget.seconds + size / (32 << 20),
        }

    def spend(self, nbytes: int, what: str) -> None:
        """Takes memory for ``what``, before it is allocated."""
        self._use("bytes", nbytes, f"{what} takes {nbytes:,} bytes")

    def count(self, number: int, what: str) -> None:
        """Takes items."""
        self._use("items", number, f"{what} are {number:,} items more")

    def take(self, seconds: float, what: str) -> None:
        """Takes the time that ``what`` is about to need, by an estimate."""
        self._use("seconds", seconds, f"{what} takes too long, {seconds:.3g} s")

    def check_depth(self, depth: int, what: str) -> None:
        """Refuses more than ``budget.depth`` levels."""
        if depth > self.budget.depth:
            raise BudgetError(f"{what} has {depth:,} levels, more than Budget(depth={self.budget.depth}) allows")

    def _use(self, name: str, amount: float, use: str) -> None:
        left = self._left[name]
        if amount > left:
            raise BudgetError(
                f"{use}, but {round(left, 3):,} are left of what Budget({name}={getattr(self.budget, name):,}) allows "
                "for a file of this size; pass budget=Budget(...) to read a file that you trust"
            )
        self._left[name] = left - amount
