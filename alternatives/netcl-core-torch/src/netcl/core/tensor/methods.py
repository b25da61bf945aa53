"""Names that netcl's front looks up: other names of ops."""

from __future__ import annotations

from typing import Any

__all__ = ["ROWS", "FUNCTIONS", "extended"]

ROWS = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "concat": "cat", "divide": "div", "greater": "gt", "greater_equal": "ge",
    "less": "lt", "less_equal": "le", "multiply": "mul", "negative": "neg", "not_equal": "ne", "subtract": "sub",
    "true_divide": "div", "remainder": "mod", "fix": "trunc", "ger": "outer",
    "hardtanh": "hard_tanh", "hardsigmoid": "hard_sigmoid", "hardswish": "hard_swish",
}  # fmt: skip
FUNCTIONS: dict[str, Any] = {}


def extended(name: str, function: Any) -> Any:
    """``function`` as the front has it: unchanged."""
    return function
