"""Files as earlier versions wrote them stay readable; each was written once and is never written again."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from netcl import nn
from netcl.io import CheckpointError, load_checkpoint, load_model, verify

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("version", [2, 3])
def test_models(version: int) -> None:
    path = GOLDEN / f"version{version}.netcl"
    assert verify(path)["version"] == version
    model = load_model(path)
    assert isinstance(model, nn.Sequential)
    assert [type(layer).__name__ for layer in model] == ["Linear", "BatchNorm1d"]
    np.testing.assert_array_equal(model[0].weight.to_host(), np.arange(6.0).reshape(2, 3) / 4)
    np.testing.assert_array_equal(model[0].bias.to_host(), [0.5, -1.0])
    np.testing.assert_array_equal(model[1].running_var.to_host(), [2.0, 2.0])
    if version == 3:
        assert not model.training


def test_a_checkpoint() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    rest = load_checkpoint(GOLDEN / "checkpoint3.netcl", model)
    np.testing.assert_array_equal(model[0].weight.to_host(), np.arange(6.0).reshape(2, 3) / 4)
    assert (rest["epoch"], rest["step"], rest["metrics"]) == (3, 12, {"loss": 0.25})
    np.testing.assert_array_equal(rest["extra"]["half"], [1.5, 1.5])
    assert rest["extra"]["list"] == [1, (2, None)]
    assert rest["optimizer"]["param_groups"] == [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0]}]
    np.testing.assert_array_equal(rest["optimizer"]["state"][0]["exp_avg"], np.ones((2, 3)))


def test_a_file_without_a_hash_is_held_against_the_archive_s_checksums(tmp_path: Path) -> None:
    whole = bytearray((GOLDEN / "version2.netcl").read_bytes())
    with np.load(GOLDEN / "version2.netcl") as arrays:
        key = next(key for key in arrays.files if arrays[key].size > 4)
        place = whole.index(arrays[key].tobytes())
    whole[place + 3] ^= 4
    path = tmp_path / "m.netcl"
    path.write_bytes(whole)
    for read in (load_model, verify):
        with pytest.raises(CheckpointError, match=f"{re.escape(repr(key))} does not have the checksum"):
            read(path)
