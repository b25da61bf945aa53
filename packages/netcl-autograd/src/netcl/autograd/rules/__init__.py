"""Gradient rules of ops that are not expressions: contractions, windows, indexing, copies."""

from __future__ import annotations

from netcl.autograd.rules import (
    attention,
    conv,
    ctc,
    factorizations,
    index,
    linalg,
    recurrence,
    resample,
    scan,
    shape,
    sort,
    sparse,
    window,
)
from netcl.autograd.rules.rule import RULES, RecordedCall, rule, rule_step

__all__ = [
    "RULES",
    "RecordedCall",
    "attention",
    "conv",
    "ctc",
    "factorizations",
    "index",
    "linalg",
    "recurrence",
    "resample",
    "rule",
    "rule_step",
    "scan",
    "shape",
    "sort",
    "sparse",
    "window",
]
