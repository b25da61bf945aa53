"""Optimization of a recorded step: its engine calls are logged, fused, scheduled and recorded again."""

from __future__ import annotations
