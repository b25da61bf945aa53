"""The rule by which tokens are chosen."""

from __future__ import annotations

from typing import Any

import pytest

from netcl.llm import Sampling


@pytest.mark.parametrize(
    "wrong", [{"temperature": -1}, {"top_p": 1.5}, {"min_p": float("nan")}, {"stop": "x"}, {"stop": ("",)}]
)
def test_a_value_out_of_range_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"expected {next(iter(wrong))}|expected stop"):
        Sampling(**wrong)
