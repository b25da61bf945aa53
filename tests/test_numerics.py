"""The page on numbers states the bounds that the elementary functions are tested against."""

from __future__ import annotations

import re
from pathlib import Path

from netcl.core.expr.prims import ULP

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "numerics.md"


def test_the_page_has_every_bound() -> None:
    rows = re.findall(r"^\| ([\d.]+) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    stated = {name: float(units) for units, names in rows for name in re.findall(r"`(\w+)`", names)}
    assert stated == ULP
