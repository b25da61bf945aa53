"""Draws with PyTorch's numbers."""

from __future__ import annotations

from typing import Any

__all__ = ["draw_on_host"]


def draw_on_host(engine: Any, kind: str, *arguments: Any) -> Any:
    """None: all draws are Philox's here."""
    return None
