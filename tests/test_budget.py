"""netcl.io and netcl.data, which may not import each other, take each other's Budget."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from netcl import data, io
from netcl.core import Tensor


def test_both_budgets_have_the_same_limits() -> None:
    assert asdict(data.Budget()) == asdict(io.Budget())


def test_a_reader_takes_the_budget_of_the_other_package(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    assert data.CSVDataset(tmp_path / "t.csv", budget=io.Budget())[0] == 1
    io.save_safetensors({"w": Tensor.ones((2,))}, tmp_path / "w.safetensors")
    assert np.all(io.load_safetensors(tmp_path / "w.safetensors", budget=data.Budget())["w"].to_host() == 1)
    with pytest.raises(io.CheckpointError, match="w.safetensors"):
        io.load_safetensors(tmp_path / "w.safetensors", budget=data.Budget(bytes=-(10**6)))
