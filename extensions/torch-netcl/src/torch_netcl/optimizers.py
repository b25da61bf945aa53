"""Kernels over lists of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TABLE: dict[str, Callable[..., Any]] = {}
