"""netcl-conformance is green on this netcl-core, red on planted faults, and its data are the contract's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from netcl_conformance.lists.levels import LEVELS

from netcl.core import manager

BASIC = ("--level", "tensor", "--level", "ops-basic")


def conformance(
    root: Path, *arguments: str, fault: str = "", core: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the kit on this core, or on the one in the folder ``core``, after the statements ``fault``."""
    code = f"import sys\n{fault}\nfrom netcl_conformance.__main__ import main\nsys.exit(main(sys.argv[1:]))"
    paths = [*([str(core)] if core else []), str(root / "alternatives/netcl-conformance/src")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NETCL_DEVICE": "cpu"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)


def test_the_document_is_current(root: Path) -> None:
    # In a process of its own: its op table has no rows of tests.
    command = [sys.executable, str(root / "tools/write_contract.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_level_is_green_on_this_core(root: Path, tmp_path: Path) -> None:
    done = conformance(root, "--json", str(tmp_path / "report.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["green"]
    assert set(report["levels"]) == set(report["declared"])
    few = {name: level["held"] for name, level in report["levels"].items() if level["held"] < 1}
    assert not few


WRONG_MATMUL = """
from dataclasses import replace
import netcl.ops
from netcl.core.ops_table.dispatch import TABLE
row = TABLE["matmul"]
plain = row.call
def off(*args, **kwargs):
    return netcl.ops.mul(plain(*args, **kwargs), 1.001)
object.__setattr__(row, "call", off)
"""
WRONG_GRADIENT = """
import netcl.autograd
from netcl.autograd.rules.rule import RULES, GradientRule
known = RULES["matmul"]
def off(call, grad):
    return {name: call.op("mul", one, 1.01) for name, one in known.backward(call, grad).items() if one is not None}
RULES["matmul"] = GradientRule(off, known.saves)
"""
RENAMED_PARAMETER = """
import netcl.core.config as config
get = config.get
config.get = lambda variable, name="": get(variable)
"""
NO_HOOKS = """
import netcl.ops
from netcl.core.process import hook_stack
from netcl.core.ops_table import dispatch
dispatch.push_hook = lambda hook, layer="profiler": hook
dispatch.pop_hook = lambda hook: None
"""


WRONG_SOFTPLUS = """
import netcl.ops as ops
plain = ops.softplus
ops.softplus = lambda *args, **kwargs: ops.mul(plain(*args, **kwargs), 1.001)
"""
WRONG_PACKED = """
import netcl.ops as ops
plain = ops.packed_linear
ops.packed_linear = lambda *args, **kwargs: ops.mul(plain(*args, **kwargs), 1.001)
"""
WRONG_EVALUATION = """
import netcl.ops as ops
from netcl.core.ops_table import dispatch
plain = dispatch.evaluate
dispatch.evaluate = lambda outputs, inputs, scalars=None, **kwargs: tuple(
    ops.mul(one, 1.001) for one in plain(outputs, inputs, scalars, **kwargs)
)
"""
WRONG_DERIVATIVE = """
import netcl.core.expr as expr
plain = expr.vjp
expr.vjp = lambda outputs, grads, wrt, present: tuple(
    None if one is None else one * 1.01 for one in plain(outputs, grads, wrt, present)
)
"""
TRUNCATED_HALF = """
import numpy as np
import netcl.core.dtypes as dtypes
import netcl.core.tensor
dtypes.to_bfloat16 = lambda values: (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
"""
NO_COPY = """
from netcl.core import Tensor
Tensor.to = lambda self, *args, device=None, dtype=None, copy=False, **unused: self
"""
WRONG_TRACE = """
from netcl.core.ops_table.dispatch import row_of
from netcl.core.graph.trace import Trace
plain = Trace.call
Trace.call = lambda self, row, args, kwargs, node, recorded: plain(
    self, row_of("sub") if row.name == "add" else row, args, kwargs, node, recorded
)
"""
REPLAYS_TWICE = """
from netcl.runtime.capture import CapturedStep
plain = CapturedStep.replay
def twice(self, *inputs):
    plain(self, *inputs)
    return plain(self, *inputs)
CapturedStep.replay = twice
"""
WRONG_PART = """
from netcl.runtime.staging import Staging
plain = Staging.download
Staging.download = lambda self, source, first, count, at, after=(): plain(self, source, 0, count, at, after)
"""
NO_KERNELS = """
from netcl.profiling.trace import profile
profile.kernels = property(lambda self: [])
"""
NO_SUMMARY = "import netcl.core.memory as memory\nmemory.memory_summary = lambda q=None: ''"
WRONG_KERNEL = """
from netcl.core.kernels.primitives import KernelSpec
plain = KernelSpec.build
def build(self, *args, **kwargs):
    object.__setattr__(self, "body", self.body.replace("factor *", "1.001f * factor *"))
    return plain(self, *args, **kwargs)
KernelSpec.build = build
"""


@pytest.mark.parametrize(
    ("fault", "arguments", "complaint"),
    [
        (WRONG_MATMUL, BASIC, "values of matmul"),
        ("import netcl.ops\ndel netcl.ops.flip", BASIC, "netcl.ops.flip: is missing"),
        (RENAMED_PARAMETER, BASIC, "netcl.core.config.get: takes"),
        (
            "import netcl.core.process.contract as c\nc.LEVELS -= {'ops-full'}",
            (),
            "ops-full: netcl.core.process.contract.LEVELS does",
        ),
        ("import netcl.core.process.contract as c\nc.LEVELS |= {'teleport'}", BASIC, "has teleport"),
        (WRONG_GRADIENT, ("--level", "gradient"), "gradient of matmul"),
        (NO_HOOKS, BASIC, "calls pass hooks from the outermost"),
        (
            "import netcl.core.tensor.in_place as i\nfrom netcl.core import Tensor\n"
            "i.fill = lambda target, value: target",
            BASIC,
            "views share memory",
        ),
        ("import netcl.ops as o\no.manual_seed = lambda seed: None", ("--level", "random"), "same bits everywhere"),
        (WRONG_SOFTPLUS, ("--level", "ops-full"), "values of softplus"),
        (WRONG_EVALUATION, ("--level", "expressions"), "texts are read as c"),
        (WRONG_DERIVATIVE, ("--level", "programs"), "derivatives are those of differences"),
        (TRUNCATED_HALF, ("--level", "half"), "half rounds promotes and is read"),
        (WRONG_TRACE, ("--level", "tracing"), "jit gives the values"),
        (REPLAYS_TWICE, ("--level", "capture"), "a replay has the results"),
        (WRONG_PART, ("--level", "staging"), "parts pass by the memory"),
        (NO_KERNELS, ("--level", "profiling"), "a profile lists what ran"),
        (NO_SUMMARY, ("--level", "pools"), "summaries are texts"),
        (
            "import netcl.runtime.prediction as p\np.event = lambda function: lambda *args, **kwargs: None",
            ("--level", "prediction"),
            "an event returns what its function returns",
        ),
        (WRONG_PACKED, ("--level", "packed"), "the linear layer multiplies by the unpacked numbers"),
        ("import netcl.special as s\ndel s.expit", ("--level", "front"), "netcl.special has no expit"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_red(root: Path, fault: str, arguments: tuple[str, ...], complaint: str) -> None:
    done = conformance(root, *arguments, fault=fault)
    assert done.returncode != 0, done.stdout
    assert complaint in done.stdout + done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("fault", "level", "complaint"),
    [
        (NO_COPY, "several-devices", "tensors are copied between devices"),
        (WRONG_KERNEL, "opencl-kernels", "a kernel of the user runs"),
    ],
)
def test_a_planted_fault_that_needs_an_opencl_device_is_red(root: Path, fault: str, level: str, complaint: str) -> None:
    if manager.default("opencl") is None:
        pytest.skip("this machine has no OpenCL device")
    done = conformance(root, "--level", level, "--device", "opencl", fault=fault)
    assert done.returncode == 1, done.stdout + done.stderr
    assert complaint in done.stdout + done.stderr, done.stdout + done.stderr


def test_every_level_has_a_planted_fault() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert [level for level in LEVELS if f'"{level}"' not in text] == []


def test_a_core_without_levels_is_told_to_declare_them(root: Path) -> None:
    done = conformance(root, *BASIC, fault="sys.modules['netcl.core.process.contract'] = None")
    assert done.returncode == 2
    assert "declares no levels: write netcl/core/process/contract.py" in done.stderr


def test_the_suites_of_the_layers_are_levels(root: Path, tmp_path: Path) -> None:
    suite = tmp_path / "netcl-autograd" / "tests"
    suite.mkdir(parents=True)
    (suite / "test_one.py").write_text("def test_wrong():\n    assert 1 == 2\n", encoding="utf-8")
    done = conformance(root, "--level", "pools", "--layers", str(tmp_path))
    assert done.returncode == 1
    assert "test_wrong" in done.stdout
    assert "give the one with the packages of a checkout" in done.stdout
