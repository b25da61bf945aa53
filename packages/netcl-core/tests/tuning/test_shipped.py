"""The measurements that come with the package: whom they are for, when they decide, and how they are made."""

from __future__ import annotations

import json

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor, config
from netcl.core.engine.registry import engine_for
from netcl.core.kernel_selector import KernelConfig, KernelVariant, get_kernel_selector
from netcl.core.tuning import measurements, shipped
from netcl.profiling import profile, shipping

SHAPE = (40, 24, 56)
HERE = {"platform": "P", "version": "1.2", "type": "cpu", "vendor": "V", "lanes": 16, "units": 2}
DIRECT = KernelConfig(KernelVariant.MATMUL_NAIVE, extra={"kernel": "direct"})


@pytest.fixture
def opencl(handle, tmp_path, monkeypatch):
    """Yields an OpenCL device, with nothing measured and a table of one product that ``direct`` is for."""
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy has no kernels")
    rows = [
        {"op": "matmul", "shape": list(SHAPE), "dtype": "float32", "gains": {"direct": 2.0}, "config": None},
        {"op": "matmul", "shape": [8, 8, 8], "dtype": "float32", "gains": {"direct": 0.5}, "config": None},
    ]
    rows[0]["config"] = measurements.row_of(DIRECT)
    monkeypatch.setattr(shipped, "rows_for", lambda device: rows)
    monkeypatch.setattr(measurements, "_shipped", {})
    monkeypatch.setattr(measurements, "_tables", {})
    monkeypatch.setattr(measurements, "_folder", lambda: tmp_path / "tuning")
    measurements.forget_choices()
    with config.override(AUTOTUNE="cached", DETERMINISTIC=False):
        yield handle
    measurements.forget_choices()


@pytest.mark.parametrize(
    ("other", "holds"),
    [
        ({}, True),
        ({"units": 4}, True),
        ({"units": 1}, True),
        ({"units": 5}, False),
        ({"version": "1.3"}, False),
        ({"vendor": "W"}, False),
        ({"lanes": 8}, False),
        ({"type": "gpu"}, False),
        ({"platform": "Q"}, False),
    ],
)
def test_it_holds_for_the_same_driver_class_and_width_alone(other, holds):
    assert shipped.applies(HERE, {**HERE, **other}) is holds
    assert shipped.applies({**HERE, **other}, HERE) is holds


def test_the_table_is_well_formed():
    tables = json.loads(shipped.resource().read_text(encoding="utf-8"))["drivers"]
    assert len(tables) >= 2
    for table in tables:
        assert set(table["driver"]) == set(HERE)
        assert [(row["op"], measurements.tupled(row["shape"])) for row in table["rows"]] == list(shipping.SHAPES)
        for row in table["rows"]:
            name = row["config"] and row["config"]["extra"]["kernel"]
            assert name is None or (name in row["gains"] and row["gains"][name] >= shipping._GAIN)


def test_it_is_asked_after_what_was_measured_here(opencl):
    engine, selector = engine_for(opencl), get_kernel_selector(opencl)
    a, b = (np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in ((40, 56), (56, 24)))
    x, y = Tensor.from_host(opencl.queue, a), Tensor.from_host(opencl.queue, b)

    def launched():
        with profile(opencl) as p:
            result = ops.matmul(x, y).to_host()
        assert np.allclose(result, a @ b, rtol=1e-4, atol=1e-4)
        return {row.name for row in p.kernels}

    assert "direct" in launched()
    assert selector.select_matmul_kernel(60, 24, 100).extra["measured_for"] == SHAPE
    for shape in ((8, 8, 8), (16, 16, 16), (500, 500, 500)):
        assert selector.select_matmul_kernel(*shape).extra["kernel"] != "direct"
    for instead in ({"AUTOTUNE": "off"}, {"DETERMINISTIC": True}):
        with config.override(**instead):
            by_rule = selector.select_matmul_kernel(*SHAPE).extra["kernel"]
        assert by_rule != "direct"
    assert "direct" in measurements.candidates(engine, "matmul", "float32")
    own = KernelConfig(KernelVariant.MATMUL_TILED, extra={"kernel": by_rule})
    measurements.store(engine, "matmul", SHAPE, "float32", own)
    assert selector.select_matmul_kernel(*SHAPE).extra["kernel"] == by_rule


def test_measuring_it_takes_only_what_is_faster_beyond_doubt(opencl, tmp_path, monkeypatch):
    times = {"": [4.0] * 9, "direct": [1.0, 9.0, 1.0] * 3}
    monkeypatch.setattr(shipping, "_interleaved", lambda *_: {name: list(each) for name, each in times.items()})
    (row,) = shipping.measured_rows(opencl, [("matmul", SHAPE)])
    assert row["config"] is None
    assert row["gains"] == {"direct": 4.0}
    times["direct"] = [1.0, 3.0, 1.0] * 3
    (row,) = shipping.measured_rows(opencl, [("matmul", SHAPE)])
    assert row["config"]["extra"] == {"kernel": "direct"}
    assert row["gains"] == {"direct": 4.0}
    path = tmp_path / "tuned.json"
    for units in (2, 2, 64):
        shipping.write(path, {**HERE, "units": units}, [row])
    tables = json.loads(path.read_text())["drivers"]
    assert [table["driver"]["units"] for table in tables] == [2, 64]
    assert tables[0]["rows"][0]["op"] == "matmul"


def test_rule_and_kernels_take_turns(opencl):
    (row,) = shipping.measured_rows(opencl, [("matmul", (8, 8, 8))], seconds=0.0)
    assert row["gains"]
    assert all(gain > 0 for gain in row["gains"].values())
