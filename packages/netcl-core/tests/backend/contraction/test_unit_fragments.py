"""The twins of the units with fragments in the table, in plain OpenCL C on every device, and the trial of a unit that
was not run on hardware before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl.core.device.drivers.child_probe import RIGHT, SLOWER
from netcl.core.tuning.unit_table import INSTRUCTIONS, UNITS

QUICK = ("dpas16", "mfma_f32")
TWINS = [
    pytest.param(f"{name}_twin", marks=() if name in QUICK else pytest.mark.deep)
    for name, one in INSTRUCTIONS.items()
    if one.a is not None
]


@pytest.fixture
def trial(engine: Any) -> Any:
    if engine.name != "cl":
        pytest.skip("needs an OpenCL device: NumPy has no kernels of matrix units")
    from netcl.core.backend.opencl.contraction import unit_trial

    return unit_trial


@pytest.mark.parametrize("unit", TWINS)
def test_products_have_the_right_bits(engine: Any, trial: Any, unit: str) -> None:
    """In each layout and dtype, with tails, as in the trial of the unit."""
    for case in trial._cases(unit):
        assert trial._multiplies(engine, *case), case


@pytest.mark.parametrize("unit", ["wgmma_twin_tf32", "mma_twin_tf32"])
def test_tf32_rounds_operands_to_eleven_bits(engine: Any, trial: Any, unit: str) -> None:
    """The products of rounded operands, in float64, are the results up to the rounding of float32 sums; mma's twin
    takes the high bits, which is another rounding.
    """
    from netcl.core.backend.opencl.contraction import gemm

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((66, 40)).astype(np.float32) for _ in range(2))
    a[3, 5], a[7, 2], a[9, 1] = np.inf, np.nan, np.uint32(0x7F800001).view(np.float32)

    def rounded(x: Any) -> Any:
        bits = x.view(np.uint32)
        up = ((bits + np.uint32(0x1000)) if unit.startswith("wgmma") else bits) & np.uint32(0xFFFFE000)
        return np.where(np.isfinite(x), up.view(np.float32), np.where(np.isnan(x), np.nan, x)).astype(np.float64)

    found = engine.read(
        gemm.matmul(engine, *(engine.tensor(x, "float32") for x in (a, b)), transpose_b=True, variant=unit)
    )
    exact = rounded(a) @ rounded(b).T
    finite = [i for i in range(66) if i not in (3, 7, 9)]
    np.testing.assert_allclose(found[finite], exact[finite], rtol=1e-5, atol=1e-5)
    assert np.abs(found[finite] - a[finite].astype(np.float64) @ b.astype(np.float64).T).max() > 1e-4
    assert not np.isfinite(found[[3, 7]]).any()
    if unit.startswith("wgmma"):
        assert np.isnan(found[9]).all()  # NaN with low bits only


def test_float64_is_as_exact_as_sums_in_order(engine: Any, trial: Any) -> None:
    from netcl.core.backend.opencl.contraction import gemm

    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((70, 50)), rng.standard_normal((50, 66))
    found = engine.read(gemm.matmul(engine, *(engine.tensor(x, "float64") for x in (a, b)), variant="mma_f64_twin"))
    scale = np.abs(a) @ np.abs(b)
    assert (np.abs(found - a @ b) / scale).max() < 2e-15


def test_rows_that_are_not_contiguous_along_k_do_not_run_on_tf32(engine: Any, trial: Any) -> None:
    from netcl.core.tuning.problems import Contraction

    x = engine.tensor(np.ones((64, 64)), "float32")
    c = Contraction(
        m=64, k=(1, 1, 1, 64), n=(1, 1, 1, 64), a_row=64, a_k=(0, 0, 0, 1), b_k=(0, 0, 0, 64), b_n=(0, 0, 0, 1),
        out_row=64, out_n=(0, 0, 0, 1),
    )  # fmt: skip
    with pytest.raises(ValueError, match="mma_twin: operands of float32 must be contiguous along k"):
        trial.contract(engine, c, UNITS["mma_twin_tf32"].tiles[0].tile, x, x, x, 0)


@pytest.mark.parametrize(
    ("name", "faster", "code"), [("arm", False, SLOWER), ("arm", True, RIGHT), ("wgmma", False, RIGHT)]
)
def test_a_unit_that_was_not_run_before_must_also_be_faster(
    trial: Any, monkeypatch: pytest.MonkeyPatch, name: str, faster: bool, code: int
) -> None:
    monkeypatch.setattr(trial, "engine_of_driver", lambda key: None)
    monkeypatch.setattr(trial, "_multiplies", lambda engine, *case: True)
    monkeypatch.setattr(trial, "_is_faster", lambda engine, name: faster)
    assert trial.run_trial(name, "") == code


def test_the_time_of_a_unit_is_compared_with_the_kernel_without_it(
    engine: Any, trial: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A twin exchanges fragments through local memory, so it is slower."""
    if engine.handle.device_type != "cpu":
        pytest.skip("needs a CPU: on others a launch takes longer than either product")
    monkeypatch.setattr(trial, "_TIMED_SIZE", 128)
    assert not trial._is_faster(engine, "mfma_f32_twin")
