"""The states that work-groups publish for each other (look_back.cl)."""

from __future__ import annotations

TEMPLATE = "look_back"  # after the text of the warp's operations, before a kernel's
FAN = 64  # tiles with a common published state


def signal_words(rows: int, tiles: int, state_words: int) -> int:
    """Returns the 32-bit words for the states of ``tiles`` tiles of each row."""
    return 4 + 2 * state_words * rows * (tiles + -(-tiles // FAN))
