"""Gradient rules of ops that are no expressions: contractions, windows, indexing, copies."""

from __future__ import annotations

from netcl.autograd.rules.rule import RULES, Call, record_call, rule
from netcl.autograd.rules import shape as _shape

__all__ = ["RULES", "Call", "record_call", "rule"]
del _shape
