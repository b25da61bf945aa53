"""Gradient rules of ops that are not expressions: contractions, windows, indexing, copies."""

from __future__ import annotations

from netcl.autograd.rules import (  # noqa: F401  # each registers its rules
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
from netcl.autograd.rules.rule import RULES as RULES
from netcl.autograd.rules.rule import rule_step as rule_step
