"""Attention with NumPy: in blocks of queries."""

from __future__ import annotations

from netcl.core.backend.attention_blocks import attention, attention_grad

__all__ = ["attention", "attention_grad"]
