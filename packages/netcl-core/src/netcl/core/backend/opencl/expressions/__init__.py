"""Kernels generated from expressions: plans, the fast path and multi-tensor apply."""

from __future__ import annotations
