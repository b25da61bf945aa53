"""netcl.io and netcl.data, which may not import each other, have one Budget in common."""

from __future__ import annotations

from pathlib import Path

from netcl import data, io


def test_both_packages_have_the_same_module(root: Path) -> None:
    of_io = root / "packages/netcl-nn/src/netcl/io/budget.py"
    of_data = root / "packages/netcl-data/src/netcl/data/budget.py"
    assert of_io.read_text(encoding="utf-8") == of_data.read_text(encoding="utf-8")


def test_a_reader_takes_the_budget_of_the_other_package(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    assert data.CSVDataset(tmp_path / "t.csv", budget=io.Budget())[0] == 1
