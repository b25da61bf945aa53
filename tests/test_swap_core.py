"""The facade of `nox -s swap_core`: an upper package that keeps the contract passes, planted faults fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

KIT = "alternatives/netcl-conformance/src"
HONEST = """
import numpy as np
from netcl import ops
from netcl.core import Tensor

def double(tensor: Tensor) -> Tensor:
    return ops.add(tensor, tensor)
"""
TEST = """
import numpy as np
from netcl.core import Tensor
from netcl.nn import double

def test_double():
    assert double(Tensor.from_host(np.ones(3, dtype=np.float32))).to_host().tolist() == [2.0, 2.0, 2.0]
"""


@pytest.fixture(scope="module")
def second_core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the second core's sources, taken from the tree by the rule of its build hook."""
    root = Path(__file__).resolve().parent.parent
    hook: dict[str, object] = {"__file__": str(root / "alternatives/netcl-core-numpy/hatch_build.py")}
    exec((root / "alternatives/netcl-core-numpy/hatch_build.py").read_text(encoding="utf-8"), hook)
    folder = tmp_path_factory.mktemp("second_core")
    for path, inside in hook["portable_files"]().items():  # type: ignore[operator]
        copy = folder / "netcl" / inside
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return folder


def run_suite(core: Path, folder: Path, upper: str, root: Path) -> subprocess.CompletedProcess[str]:
    """Runs a one-test suite of a made-up netcl.nn on `core` under the facade."""
    site = folder / "site"
    shutil.copytree(core, site)
    (site / "netcl/nn").mkdir()
    (site / "netcl/nn/__init__.py").write_text(upper, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "test_double.py").write_text(TEST, encoding="utf-8")
    # -S leaves out .pth files, which may put a checkout first; the libraries come last.
    libraries = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(root / KIT), *libraries])}
    # As in the session's environment, pyopencl is out of reach.
    code = (
        "import pytest, sys; sys.modules['pyopencl'] = None\n"
        "sys.exit(pytest.main(['-p', 'netcl_conformance.facade', '-q', '-c', 'pytest.ini', 'test_double.py']))"
    )
    command = [sys.executable, "-S", "-c", code]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_an_honest_package_passes(second_core: Path, tmp_path: Path, root: Path) -> None:
    done = run_suite(second_core, tmp_path, HONEST, root)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("from netcl.core.backend.cpu import CPUBackend", "netcl.core.backend.cpu"),
        ("import importlib\nimportlib.import_module('netcl.core.backend.cpu')", "netcl.core.backend.cpu"),
        ("from netcl.core import engine\nengine.one_by_one", "netcl.core.engine.one_by_one"),
        ("from netcl.core import backend\nbackend.cpu", "netcl.core.backend"),
        ("Tensor.from_host(np.ones(2)).buffer", "Tensor.buffer"),
        ("getattr(Tensor.from_host(np.ones(2)), 'buffer', None)", "Tensor.buffer"),
        (
            "import inspect\nfrom netcl.core.ops_table.dispatch import OpRow\n"
            "OpRow('made', inspect.Signature()).wants_space",
            "OpRow.wants_space",
        ),
        ("Tensor.from_host(np.ones(2)).engine.intercepting", "CPUBackend.intercepting"),
        ("try:\n    Tensor.from_host(np.ones(2)).buffer\nexcept Exception:\n    pass", "Tensor.buffer"),
    ],
)
def test_reaching_past_the_contract_is_red(
    second_core: Path, tmp_path: Path, root: Path, fault: str, complaint: str
) -> None:
    done = run_suite(second_core, tmp_path, HONEST + fault, root)
    assert done.returncode != 0, done.stdout
    assert f"netcl.nn reaches {complaint}" in done.stdout


def test_a_renamed_contract_function_is_red(second_core: Path, tmp_path: Path, root: Path) -> None:
    core = tmp_path / "core"
    shutil.copytree(second_core, core)
    front = core / "netcl/ops/__init__.py"
    front.write_text(front.read_text(encoding="utf-8") + "\nplus = add\ndel add\n", encoding="utf-8")
    done = run_suite(core, tmp_path, HONEST, root)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "netcl.ops.add is missing" in done.stderr


def test_a_changed_signature_is_red(second_core: Path, tmp_path: Path, root: Path) -> None:
    core = tmp_path / "core"
    shutil.copytree(second_core, core)
    config = core / "netcl/core/config.py"
    text = config.read_text(encoding="utf-8")
    assert "def get(name: str)" in text
    config.write_text(text.replace("def get(name: str)", "def get(variable: str, name: str = '')"), encoding="utf-8")
    done = run_suite(core, tmp_path, HONEST, root)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "netcl.core.config.get takes" in done.stderr
