"""The states that work-groups publish for each other (look_back.cl)."""

from __future__ import annotations

# The templates that define the operations of a warp, by the rows of ``netcl.core.tuning.warp_table``.
WARP_TEMPLATES = {"nvidia": "warp_nvidia", "twin": "warp_twin"}
FAN = 64  # tiles with a common published state


def templates(warp: str) -> tuple[str, ...]:
    """Returns the templates before a kernel that combines states of work-groups: with ``warp`` they look back."""
    return ("group_sums", *((WARP_TEMPLATES[warp], "look_back") if warp else ()))


def signal_words(rows: int, tiles: int, state_words: int) -> int:
    """Returns the 32-bit words for the states of ``tiles`` tiles of each row."""
    return 4 + 2 * state_words * rows * (tiles + -(-tiles // FAN))
