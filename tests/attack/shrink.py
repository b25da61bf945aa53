"""Minimal reproducers: removes from a list of edits all that a failure does not need (delta debugging)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def minimal(items: Sequence[T], fails: Callable[[list[T]], bool], attempts: int = 200) -> list[T]:
    """Returns a sublist that still makes ``fails`` true; none of its parts of the last size could be removed.

    A. Zeller, R. Hildebrandt, Simplifying and isolating failure-inducing input, IEEE TSE 28 (2002).
    """
    kept, parts = list(items), 2
    while len(kept) > 1 and attempts > 0:
        size = max(1, len(kept) // parts)
        for at in range(0, len(kept), size):
            attempts -= 1
            rest = kept[:at] + kept[at + size :]
            if rest and fails(rest):
                kept, parts = rest, max(2, parts - 1)
                break
            if attempts <= 0:
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), parts * 2)
    return kept
