"""The bound of the number of layers that a module makes."""

from __future__ import annotations

_MOST = 4096


def check_layers(name: str, count: int) -> None:
    """Raises ValueError unless there are 1 to 4096 layers: each is made before the first one is used."""
    if not 1 <= count <= _MOST:
        raise ValueError(f"{name} must be from 1 to {_MOST}, got {count}")
