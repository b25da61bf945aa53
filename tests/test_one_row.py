"""A new elementwise op is one row in one place: a copy of the packages with one more row has every spelling of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("netcl-core", "netcl-autograd", "netcl-nn")
ROW = """
relu6x: OpFunction = elementwise(
    "relu6x",
    "v0 <= 0 ? 0 : (v0 >= 6 ? 6 : v0)",
    "Returns x limited to [0, 6].",
    domain=KINK,
    forms=f"{WRITTEN_TOO} x.relu_six x.relu_six_ F.* F.*_",
)
"""
PROGRAM = """
import numpy as np
import netcl as nc
import netcl.autograd as ag
import netcl.nn.functional as F
import netcl.ops as ops
from netcl.core.testing import op_cases

values = np.array([-1.0, 2.0, 7.0], np.float32)
limited = [0.0, 2.0, 6.0]
fresh = lambda: nc.tensor(values)
spellings = {
    "ops.relu6x": ops.relu6x, "ag.relu6x": ag.relu6x, "nc.relu6x": nc.relu6x, "nc.relu6x_": nc.relu6x_,
    "F.relu6x": F.relu6x, "F.relu6x_": F.relu6x_, "F(inplace)": lambda x: F.relu6x(x, inplace=True),
    "Tensor.relu6x": lambda x: x.relu6x(), "Tensor.relu6x_": lambda x: x.relu6x_(),
    "Tensor.relu_six": lambda x: x.relu_six(), "Tensor.relu_six_": lambda x: x.relu_six_(), "nc.relu_six": nc.relu_six,
}
for name, function in spellings.items():
    x = fresh()
    result = function(x)
    assert result.numpy().tolist() == limited, name
    assert (result is x) == (name.endswith("_") or name == "F(inplace)"), name
    if result is x:
        assert x.numpy().tolist() == limited, name

x = nc.tensor(values, requires_grad=True)
nc.relu6x(x).sum().backward()
assert x.grad.numpy().tolist() == [0.0, 1.0, 0.0]

cases = list(op_cases("relu6x"))
assert len(cases) > 1
for case in cases:
    result = nc.relu6x(nc.tensor(np.asarray(case.operands[0], np.float32)))
    np.testing.assert_allclose(result.numpy(), np.clip(case.operands[0], 0, 6), rtol=1e-6)
assert {"relu6x", "relu_six", "relu6x_"} <= set(dir(nc))
assert "relu6x" in ops.__all__ and "relu6x" in ag.__all__ and "relu6x" in dir(F)
print("every spelling")
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    place = tmp_path_factory.mktemp("one_row")
    for name in PACKAGES:
        shutil.copytree(
            ROOT / "packages" / name / "src",
            place / "packages" / name / "src",
            ignore=shutil.ignore_patterns("__pycache__", "*.pyi"),
        )
    shutil.copytree(ROOT / "tools", place / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    activations = place / "packages/netcl-core/src/netcl/ops/activation.py"
    text = activations.read_text(encoding="utf-8")
    activations.write_text(text + ROW, encoding="utf-8")
    return place


def run(place, *arguments):
    sources = [str(place / "packages" / name / "src") for name in PACKAGES]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sources), "NETCL_DEVICE": "cpu"}
    result = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_one_row_gives_every_spelling_at_once(copy):
    assert run(copy, "-c", PROGRAM) == "every spelling\n"


def test_one_row_gives_every_type_and_the_names_before_the_rows_are_loaded(copy):
    run(copy, str(copy / "tools/write_stubs.py"))
    core, autograd = (copy / "packages" / name / "src/netcl" for name in PACKAGES[:2])
    methods = (core / "core/tensor/methods.pyi").read_text(encoding="utf-8")
    assert all(f"def {name}(self" in methods for name in ("relu6x", "relu6x_", "relu_six", "relu_six_"))
    front = (core / "__init__.pyi").read_text(encoding="utf-8")
    assert "import relu6x as relu6x" in front
    assert "def relu6x_(" in front
    assert "def relu6x(" in (core / "ops/__init__.pyi").read_text(encoding="utf-8")
    assert "def relu6x(" in (autograd / "autograd/ops/__init__.pyi").read_text(encoding="utf-8")
    early = "import sys; from netcl.core import Tensor; print(Tensor.relu6x_.__name__, 'netcl.ops' in sys.modules)"
    assert run(copy, "-c", early) == "relu6x_ False\n"
