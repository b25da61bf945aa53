"""On a netcl-core that declares the required levels alone the packages above work, say what they leave out, once, and
reach no name of another level.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from monorepo import ROOT, load_packages
from netcl_core_kit.decompositions import NAMES

from netcl import ops  # noqa: F401 - registers the rows
from netcl.core.ops_table.dispatch import TABLE

# The packages above, in a copy of the tree with few levels declared by its core, under the facade.
PROGRAM = """
import warnings

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn, optim
from netcl.amp import autocast
from netcl.autograd.compiler.captured_graph import CompiledGraph
from netcl.autograd.compiler.training_step import compile_training_step
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((32, 4)).astype(np.float32)
Y = (X[:, 0] > X[:, 1]).astype(np.int64)


def said(caught, level):
    return [one for one in caught if f"no level {level!r}" in str(one.message)]


def test_a_network_trains_and_says_once_that_its_steps_are_eager():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 2))
    chosen = optim.Adam(model.parameters(), lr=0.05)

    def step(x, y):
        loss = ag.cross_entropy(model(x), y)
        chosen.zero_grad()
        loss.backward()
        chosen.step()
        return loss.detach()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = compile_training_step(step)
        losses = [compiled(Tensor.from_host(X), Tensor.from_host(Y)).item() for _ in range(30)]
        forward = model.compile(Tensor.from_host(X))
        graph = CompiledGraph(model).compile(Tensor.from_host(X))
    assert losses[-1] < 0.3 * losses[0]
    assert compiled.replays == 0
    assert len(said(caught, "capture")) == 1
    wanted = model(Tensor.from_host(X)).numpy()
    model.eval()
    model.train()
    np.testing.assert_allclose(forward(Tensor.from_host(X)).numpy(), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(graph.replay(Tensor.from_host(X)).numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_a_jitted_function_runs_eagerly_and_says_so_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        jitted = [ag.jit_compile(lambda x: (x * 2 + 1).tanh().sum()) for _ in range(2)]
    assert len(said(caught, "tracing")) == 1
    x = Tensor.from_host(X, requires_grad=True)
    jitted[0](x).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * (1 - np.tanh(X * 2 + 1) ** 2), rtol=1e-4, atol=1e-6)
    assert jitted[1].kernels(x) == []


def test_a_primitive_of_the_user_has_the_gradient_of_its_text():
    primitive = ag.AutogradPrimitive("power", "v0 * v0 * v1", ("grad * 5 * v0 + 0 * out", "grad * v0 * v0"))
    x = Tensor.from_host(X, requires_grad=True)
    y = Tensor.from_host(np.array([1.0, 2.0, 3.0, 4.0], np.float32), requires_grad=True)
    primitive(x, y).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), X * 5, rtol=1e-5)
    np.testing.assert_allclose(y.grad.numpy(), (X * X).sum(0), rtol=1e-5)


def test_autocast_is_refused_where_it_is_entered():
    with pytest.raises(UnsupportedError, match="autocast needs the level 'half'"), autocast():
        pass
    with autocast(enabled=False):
        pass


def test_the_trainer_runs_and_its_profiler_measures_wall_time(tmp_path):
    from netcl.trainer import Profiler, Trainer

    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer = Trainer(
            model, optim.SGD(model.parameters(), lr=0.1), loss_fn=ag.cross_entropy, callbacks=[Profiler(tmp_path, 1, 2)]
        )
        trainer.fit([(X[i : i + 8], Y[i : i + 8]) for i in range(0, 32, 8)], epochs=2)
    assert len(said(caught, "profiling")) == 1
    assert "2 steps took" in (tmp_path / "kernels.txt").read_text(encoding="utf-8")
"""
# Rows with a gradient of their own, as a core without programs has them: here by netcl-core's own derivative.
OWN_GRADIENTS = """

_made = make_row


def make_row(function, kind, **fields):
    row = _made(function, kind, **fields)
    if kind != "expression":
        return row

    def vjp(call, grad):
        from netcl.core.expr import Load, vjp as derive
        from netcl.core.ops_table.program import bound, evaluate

        assert not call.again
        ready = bound(row_of(row.name), (), {name: getattr(call, name) for name in row.signature.parameters})
        program, inputs = ready.program, ready.inputs
        given = [place for place, one in enumerate(call.grads) if one is not None]
        extra = [call.grads[place].reshape(program.shapes[place]) for place in given]
        grads = [None] * len(program.outputs)
        present = dict(program.present)
        rank = max(len(one.shape) for one in inputs)
        for slot, place in enumerate(given, len(inputs)):
            grads[place] = Load(slot, program.outputs[place].dtype)
            shape = program.shapes[place]
            present[slot] = frozenset(axis + rank - len(shape) for axis, size in enumerate(shape) if size != 1)
        named = [name for name in row.operands if hasattr(getattr(call, name), "engine")]
        wanted = [slot for slot, name in enumerate(named) if call.wants(name)]
        found = derive(program.outputs, grads, wanted, present)
        there = [(slot, one) for slot, one in zip(wanted, found) if one is not None]
        shapes = [(1,) * (rank - inputs[slot].ndim) + inputs[slot].shape for slot, _ in there]
        results = evaluate([one for _, one in there], (*inputs, *extra), ready.scalars, shapes=shapes)
        return {named[slot]: one.reshape(inputs[slot].shape) for (slot, _), one in zip(there, results)}

    object.__setattr__(row, "vjp", vjp)
    return row
"""
KITS = [str(ROOT / f"alternatives/netcl-{name}/src") for name in ("conformance", "core-kit")]
REACH = "from netcl.core.graph.trace import Trace\n"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns all packages in one folder, with a core that declares the required levels."""
    folder = tmp_path_factory.mktemp("levels")
    for source in (package.source for package in load_packages().values()):
        shutil.copytree(
            source, folder / "netcl", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "opencl")
        )
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    level: needs a level\n", encoding="utf-8")
    (folder / "test_program.py").write_text(PROGRAM, encoding="utf-8")
    return folder


def declare(tree: Path, *optional: str) -> None:
    """Makes the core of ``tree`` declare the required levels and ``optional`` ones."""
    levels = ("tensor", "ops-basic", "ops-full", "gradient", "expressions", *optional)
    text = f'"""Few levels."""\n\nLEVELS = frozenset({levels!r})\n'
    (tree / "netcl/core/process/contract.py").write_text(text, encoding="utf-8")


def run(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tree), *KITS]),
        "NETCL_DEVICE": "cpu",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "netcl_conformance.facade", "-c", "pytest.ini"]
    return subprocess.run(
        [*command, *(arguments or ("test_program.py",))],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_packages_work_on_a_core_whose_rows_have_their_own_gradients(tree: Path) -> None:
    declare(tree)
    module = tree / "netcl/core/ops_table/table.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(text + OWN_GRADIENTS, encoding="utf-8")
    try:
        done = run(tree)
    finally:
        module.write_text(text, encoding="utf-8")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


SUITE = """
import pytest

from netcl import ops
from netcl.core.testing import Case, assert_close, expected, masked, op_cases, run_case
from netcl.core.testing.pytest_plugin import engine as engine
from netcl.core.testing.pytest_plugin import handle as handle


@pytest.mark.parametrize("name", ["add", "softmax", "conv2d"])
def test_cases(name, engine):
    for case in op_cases(name):
        for found, wanted in zip(run_case(name, case, engine), expected(name, case)):
            assert_close(found, wanted)


@pytest.mark.level("capture")
def test_of_a_level():
    raise AssertionError("the core does not declare it")


def test_of_a_smaller_device(handle):
    with masked(handle):
        raise AssertionError("the core cannot emulate it")
"""
OF_A_LEVEL = """
import pytest
from netcl.core import no_such_name

pytestmark = pytest.mark.level("tracing")
"""


def test_suites_run_on_a_core_without_its_own_kit(tree: Path) -> None:
    declare(tree, "programs")
    (tree / "netcl/core/testing").rename(tree / "testing_away")
    suite = tree / "suite"
    suite.mkdir()
    (suite / "test_cases.py").write_text(SUITE, encoding="utf-8")
    (suite / "test_tracing.py").write_text(OF_A_LEVEL, encoding="utf-8")
    try:
        done = run(tree, "-rs", "suite")
    finally:
        (tree / "testing_away").rename(tree / "netcl/core/testing")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "3 passed" in done.stdout
    assert "needs the level capture" in done.stdout
    assert "left out: test_tracing.py: needs the level tracing" in done.stdout


def test_packages_work_without_optional_levels(tree: Path) -> None:
    declare(tree, "programs")
    done = run(tree)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


LEFT_OUT = """

from netcl.core.ops_table.dispatch import TABLE as _TABLE

for _name in {names!r}:
    del globals()[_name], _TABLE[_name]
    __all__.remove(_name)

from netcl_core_kit.decompositions import complete

ADDED = complete()
"""
OF_DECOMPOSITIONS = """
import netcl
import netcl.autograd as ag
import netcl.ops as ops
import pytest
from netcl.core import Tensor
from netcl.core.ops_table.dispatch import TABLE
from netcl.core.errors import DTypeError, ShapeError

ROWS = {rows!r}
NAMES = {names!r}


def tensor(*shape, dtype="float32"):
    return Tensor.ones(shape, dtype)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_row_is_the_one_of_the_contract(name):
    row = TABLE[name]
    assert name in ops.ADDED
    assert row is getattr(ops, name).row is getattr(ag, name).row is getattr(netcl, name, getattr(ag, name)).row
    assert name in ops.__all__
    assert [
        *(list(row.operands), {{key: repr(one) for key, one in row.attributes.items()}}, row.amp),
        *(row.domain.gradient, row.domain.second),
    ] == ROWS[name]


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ShapeError, lambda: ops.flatten(tensor(2, 3), 1, 0)),
        (ShapeError, lambda: ops.squeeze(tensor(2, 3), 0)),
        (ShapeError, lambda: ops.stack([tensor(2), tensor(3)])),
        (IndexError, lambda: ops.narrow(tensor(4), 0, 3, 2)),
        (ShapeError, lambda: ops.split(tensor(4), [1, 2])),
        (ShapeError, lambda: ops.chunk(tensor(4), 0)),
        (ShapeError, lambda: ops.hstack([])),
        (ValueError, lambda: ops.diff(tensor(4), -1)),
        (ShapeError, lambda: ops.pixel_shuffle(tensor(3, 2, 2), 2)),
        (ShapeError, lambda: ops.glu(tensor(3))),
        (ShapeError, lambda: ops.mm(tensor(2, 3), tensor(3))),
        (ShapeError, lambda: ops.addmm(tensor(5), tensor(2, 3), tensor(3, 4))),
        (DTypeError, lambda: ops.addcdiv(*[tensor(2, dtype="int32")] * 3)),
        (DTypeError, lambda: ops.masked_fill(tensor(2), tensor(2), 0.0)),
        (ShapeError, lambda: ops.masked_fill(tensor(2), tensor(3, dtype="bool"), 0.0)),
        (IndexError, lambda: ops.embedding([-1], tensor(2, 3))),
        (IndexError, lambda: ops.embedding([0], tensor(2, 3), 2)),
        (IndexError, lambda: ops.embedding(Tensor.from_host([-1]), tensor(2, 3)).numpy()),
        (ValueError, lambda: ops.quantile(tensor(4), 1.5)),
        (ShapeError, lambda: ops.quantile(tensor(0), 0.5)),
        (ShapeError, lambda: ops.layer_norm(tensor(2, 3), 2)),
        (ShapeError, lambda: ops.group_norm(tensor(2, 3, 4), 2)),
        (ValueError, lambda: ops.batch_norm(tensor(2, 3))),
        (ShapeError, lambda: ops.batch_norm(tensor(1, 3), training=True)),
        (ShapeError, lambda: ops.rope(tensor(2, 3))),
        (ShapeError, lambda: ops.scaled_dot_product_attention(tensor(2, 3), tensor(2, 4), tensor(2, 4))),
        (ShapeError, lambda: ops.adaptive_avg_pool2d(tensor(2, 3), 2)),
    ],
)
def test_wrong_arguments_are_named(error, call):
    with pytest.raises(error):
        call()


def test_the_running_statistics_move():
    x = Tensor.from_host([[1.0, 2.0], [3.0, 6.0]])
    mean, var = tensor(2), tensor(2)
    ops.batch_norm(x, mean, var, training=True, momentum=0.5)
    assert mean.tolist() == [1.5, 2.5]
    assert var.tolist() == [1.5, 4.5]


def test_a_padding_row_and_a_masked_query_have_no_gradient():
    weight = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    ag.sum(ag.embedding(Tensor.from_host([0, 1, 1]), weight, 1)).backward()
    assert weight.grad.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    q = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    mask = Tensor.from_host([[True, True], [False, False]])
    out = ag.scaled_dot_product_attention(q, q.detach(), q.detach(), mask)
    assert out.tolist()[1] == [0.0, 0.0]
    ag.sum(out).backward()
    assert q.grad.tolist()[1] == [0.0, 0.0]
"""


def test_a_core_takes_functions_that_it_does_not_define_from_the_kit(tree: Path) -> None:
    declare(tree, "programs")
    rows = {}
    for name in NAMES:
        row = TABLE[name]
        rows[name] = [
            *(list(row.operands), {key: repr(one) for key, one in row.attributes.items()}, row.amp),
            *(row.domain.gradient, row.domain.second),
        ]
    module = tree / "netcl/ops/__init__.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(text + LEFT_OUT.format(names=sorted(NAMES)), encoding="utf-8")
    (tree / "test_decompositions.py").write_text(
        OF_DECOMPOSITIONS.format(rows=rows, names=sorted(NAMES)), encoding="utf-8"
    )
    code = "from netcl_conformance.__main__ import main; raise SystemExit(main())"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tree), *KITS]),
        "NETCL_DEVICE": "cpu",
    }
    command = [sys.executable, "-c", code, "--level", "ops-full", "--level", "gradient"]
    try:
        suite = run(tree, "test_decompositions.py", "test_program.py")
        kit = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
    finally:
        module.write_text(text, encoding="utf-8")
    assert suite.returncode == 0, suite.stdout[-4000:] + suite.stderr[-2000:]
    assert kit.returncode == 0, kit.stdout[-4000:] + kit.stderr[-2000:]
    assert "not checked" not in kit.stdout


def test_decompositions_are_of_composite_rows_alone() -> None:
    assert {name for name in NAMES if TABLE[name].composite is None} == set()


def test_a_name_of_a_level_that_is_not_declared_is_closed(tree: Path) -> None:
    declare(tree, "programs")
    module = tree / "netcl/optim/__init__.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(text + REACH, encoding="utf-8")
    try:
        done = run(tree)
    finally:
        module.write_text(text, encoding="utf-8")
    assert done.returncode != 0
    assert "netcl.optim reaches netcl.core.graph" in done.stdout + done.stderr
