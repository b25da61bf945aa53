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
from netcl.autograd.rules.rule import RULES, RecordedCall, record_call, rule

__all__ = [
    "RULES",
    "RecordedCall",
    "attention",
    "conv",
    "ctc",
    "factorizations",
    "index",
    "linalg",
    "record_call",
    "recurrence",
    "resample",
    "rule",
    "scan",
    "shape",
    "sort",
    "sparse",
    "window",
]
