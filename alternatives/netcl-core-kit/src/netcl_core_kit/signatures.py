"""Signatures of rows, for ``inspect``."""

from __future__ import annotations

from typing import Any

__all__ = ["Signed"]


class Signed:
    """``__wrapped__`` of the function of a row: ``inspect.signature`` follows it."""

    def __init__(self, row: Any) -> None:
        self.row = row

    @property
    def __signature__(self) -> Any:
        return self.row.signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a signature is no function")
