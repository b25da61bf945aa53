"""Draws with PyTorch's numbers."""

from __future__ import annotations

from typing import Any

from netcl_core_kit.generator import current

__all__ = ["draw_on_host"]


def draw_on_host(engine: Any, kind: str, *arguments: Any) -> Any:
    """PyTorch's numbers for a draw of the calling thread on ``engine``, an array: ``MT19937.kind(*arguments)``, in which
    tensors are read; None if Philox draws: on GPUs, and for generators without such numbers.
    """
    generator = current()
    if generator.host is None or engine.place.type != "cpu":
        return None
    given = [one.to_host() if hasattr(one, "to_host") else one for one in arguments]
    with generator.lock:
        return getattr(generator.host, kind)(*given)
