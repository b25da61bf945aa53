"""The op table: rows, programs made from them, the hook stack and the fast path of repeated calls."""

from __future__ import annotations
