"""The command queue: transfers, launches, programs, recordings and shutdown."""

from __future__ import annotations
