"""The counts of a thread: which part of its calls was predicted, and what ended predictions."""

from __future__ import annotations

from collections import Counter

__all__ = ["WARM", "Report"]

WARM = 8  # periods of a loop that run op by op before they are logged


class Report:
    """Counts of one thread: calls that were predicted and then computed by a replay, calls of the same periods that
    were not, and what ended predictions, by cause.
    """

    def __init__(self) -> None:
        self.predicted: int = 0
        self.computed: int = 0
        self.replays: int = 0
        self.causes: Counter[str] = Counter()

    @property
    def share(self) -> float:
        """The part of the calls that was predicted."""
        return self.predicted / max(self.predicted + self.computed, 1)

    def __str__(self) -> str:
        causes = ", ".join(f"{cause} {count}" for cause, count in self.causes.most_common(5))
        return f"{self.share:.1%} of calls predicted, {self.replays} replays; ended by: {causes or 'nothing'}"

    __repr__ = __str__
