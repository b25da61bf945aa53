"""Merging of neighbouring symbols by rank: the loop that byte-level BPE and SentencePiece's BPE share."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

__all__ = ["merged"]


def merged(symbols: list[str], rank: Callable[[str, str], float | None]) -> list[str]:
    """Returns the symbols after all merges: the pair of the lowest rank first, the leftmost of equal ranks.

    ``rank`` returns None for a pair that does not merge. The time grows as n log n with the symbols.
    """
    count = len(symbols)
    if count < 2:
        return symbols
    before, after = list(range(-1, count - 1)), list(range(1, count + 1))
    pairs = []
    for at in range(count - 1):
        order = rank(symbols[at], symbols[at + 1])
        if order is not None:
            pairs.append((order, at, symbols[at], symbols[at + 1]))
    heapify(pairs)
    while pairs:
        _, at, left, right = heappop(pairs)
        follower = after[at]
        # An entry is out of date if one of its symbols has been merged since.
        if follower >= count or symbols[at] != left or symbols[follower] != right:
            continue
        whole = symbols[at] = left + right
        symbols[follower] = ""
        follower = after[at] = after[follower]
        if follower < count:
            before[follower] = at
            order = rank(whole, symbols[follower])
            if order is not None:
                heappush(pairs, (order, at, whole, symbols[follower]))
        ahead = before[at]
        if ahead >= 0:
            order = rank(symbols[ahead], whole)
            if order is not None:
                heappush(pairs, (order, ahead, symbols[ahead], whole))
    return [symbol for symbol in symbols if symbol]
