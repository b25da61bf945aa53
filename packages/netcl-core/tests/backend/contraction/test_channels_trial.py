"""The trial of the kernels for few channels, and convolutions on a driver that fails it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from netcl.core.backend.opencl.contraction import channels_trial, conv
from netcl.core.backend.opencl.contraction.few_channels import channels_verdict
from netcl.core.device.drivers.child_probe import RIGHT, WRONG, driver_key
from netcl.core.device.health import launch_log

OPTIONS: dict[str, Any] = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}


def _on_cl(engine: Any) -> None:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels")
    if engine.handle.device_type != "cpu":
        pytest.skip("needs a CPU: others have no kernels for few channels")


def test_the_trial_is_right_and_finds_a_wrong_sum(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _on_cl(engine)
    key = driver_key(engine.queue.device)
    assert channels_trial.run_trial(key) == RIGHT
    right = channels_trial.conv

    def doubled(engine: Any, kind: str, *operands: Any, **options: Any) -> Any:
        found = right(engine, kind, *operands, **options)
        return engine.tensor(2 * engine.read(found), "float32") if kind == "grad_weight" else found

    monkeypatch.setattr(channels_trial, "conv", doubled)
    assert channels_trial.run_trial(key) == WRONG


def test_versions_that_are_known_have_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    monkeypatch.setattr(channels_verdict, "verdict", lambda name, *rest, **options: tried.append(name))
    monkeypatch.setattr(channels_verdict, "driver_key", str)
    for version, trials in (("OpenCL 3.0 PoCL 3.0-rc2", 0), ("OpenCL 3.0 LINUX", 0), ("OpenCL 3.0 PoCL 7.1", 1)):
        tried.clear()
        platform = SimpleNamespace(version=version)
        works = channels_verdict._work.__wrapped__(SimpleNamespace(platform=platform))
        assert len(tried) == trials
        assert works is (None if trials else True)


@pytest.mark.parametrize("works", [True, False])
def test_a_driver_that_fails_takes_other_kernels(engine: Any, works: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    _on_cl(engine)
    monkeypatch.setattr(conv, "few_channels_work", lambda engine: works)
    engine.plans.clear()
    rng = np.random.default_rng(0)
    x, g = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((64, 1, 28, 28), (64, 32, 26, 26)))
    log = launch_log(engine.queue)
    log.clear()
    given = engine.tensor(x, "float32"), engine.tensor(g, "float32")
    found = conv.conv(engine, "grad_weight", *given, shape=(32, 1, 3, 3), **OPTIONS)
    assert ("channels_weights" in log) == works
    wanted = np.stack(
        [np.einsum("nhw,nfhw->f", x[:, 0, i : i + 26, j : j + 26], g) for i in range(3) for j in range(3)]
    )
    assert np.array_equal(engine.read(found).reshape(32, 9).T, wanted)
    engine.plans.clear()
