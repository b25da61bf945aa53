"""Engines: one per queue, what is said of tensors of several, and the conformance checks of a backend."""

from __future__ import annotations

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor, manager
from netcl.core.backend.cpu import CPUBackend
from netcl.core.engine.protocol import DeviceBackend
from netcl.core.engine.registry import cpu_engine, engine_for, ensure_same_backend, get_backend, is_opencl, is_queue
from netcl.core.errors import BackendMismatchError
from netcl.core.testing import check_backend, check_device


def test_engines_are_one_per_queue(handle, engine):
    assert engine_for(handle) is engine_for(handle.queue) is engine
    assert isinstance(engine, DeviceBackend)
    t = Tensor.ones(3)
    assert get_backend(t) is engine
    assert is_opencl(t) == (engine.name == "cl")
    assert is_queue(handle)
    assert is_queue(handle.queue)
    assert not is_queue(t)


def test_operands_of_two_devices_are_named(engine):
    here = Tensor.ones(3)
    there = Tensor.ones(3, queue=manager.split(manager.default("cpu"), 2)[1].queue)
    for call in (
        lambda: here + there,
        lambda: ops.matmul(here, there),
        lambda: ops.cat([here, there]),
        lambda: ops.linear(here, ops.reshape(there, (1, 3))),
        lambda: ensure_same_backend([here, there], "join"),
    ):
        with pytest.raises(
            BackendMismatchError, match=r"operands live on .* and .*; move them together with tensor.to"
        ):
            call()
    moved = here.to(there.queue)
    assert moved.engine is there.engine
    assert (moved + there).tolist() == [2, 2, 2]


@pytest.mark.deep
def test_conformance(handle, engine):
    report = check_device(handle)
    assert report, str(report)
    assert report.passed > 40


def test_a_wrong_backend_is_reported(monkeypatch):
    def wrong(self, a, b, **kwargs):
        result = right(self, a, b, **kwargs)
        result.array[...] += 1
        return result

    right = CPUBackend.matmul
    monkeypatch.setattr(CPUBackend, "matmul", wrong)
    report = check_backend(cpu_engine(), ["add", "matmul", "linear"])
    assert not report
    assert set(report.failed) == {"matmul", "linear"}
    assert report.passed > 10
    assert "AssertionError" in str(report)


def test_empty_tensors(engine):
    for shape in ((0,), (3, 0), (0, 4, 2)):
        t = Tensor.zeros(shape)
        assert (t + 1).numpy().shape == shape
        assert ops.sum(t).item() == 0
        assert np.isnan(ops.mean(t).item())
