"""examples/downstream: a project that builds on netcl-core alone passes its tests from the sources and from wheels."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement

# Runs the project's tests with these folders first on the path and the other six distributions refused.
RUNNER = """
import sys
folders, tests = sys.argv[1:-1], sys.argv[-1]
sys.path[:0] = folders
siblings = ("autograd", "amp", "nn", "io", "distributions", "optim", "data", "distributed", "trainer", "torch")

class OnlyCore:
    def find_spec(self, name, path=None, target=None):
        parts = name.split(".")
        if parts[0] == "netcl" and len(parts) > 1 and parts[1] in siblings:
            raise ModuleNotFoundError(f"{name} is no part of netcl-core", name=name)

sys.meta_path.insert(0, OnlyCore())
import netcl.core, heatplate, pytest
inside = [module.__file__.startswith(tuple(folders)) for module in (netcl.core, heatplate)]
assert all(inside), (netcl.core.__file__, heatplate.__file__)
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-c", tests + "/../pyproject.toml", tests]))
"""


def run_tests(project: Path, *folders: Path) -> str:
    command = [sys.executable, "-c", RUNNER, *map(str, folders), str(project / "tests")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the wheels of netcl-core and of the project, unpacked into one folder as an installer does."""
    root = Path(__file__).resolve().parent.parent
    folder = tmp_path_factory.mktemp("site")
    for project in (root / "packages/netcl-core", root / "examples/downstream"):
        (wheel,) = WheelBuilder(str(project)).build(directory=str(folder / "wheels"), versions=["standard"])
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    return folder


def test_its_tests_pass_from_wheels(root: Path, wheels: Path) -> None:
    assert "passed" in run_tests(root / "examples/downstream", wheels)


def test_its_tests_pass_from_the_sources(root: Path) -> None:
    project = root / "examples/downstream"
    assert "passed" in run_tests(project, root / "packages/netcl-core/src", project / "src")


def test_it_asks_for_netcl_core_with_opencl_alone(wheels: Path) -> None:
    (info,) = wheels.glob("heatplate-*.dist-info")
    (core,) = wheels.glob("netcl_core-*.dist-info")
    needs = [Requirement(text) for text in PathDistribution(info).requires or []]
    (need,) = [need for need in needs if need.marker is None]
    assert need.name == "netcl-core"
    assert need.extras == {"opencl"}
    assert str(need.specifier) in (">=0.1,<0.2", "<0.2,>=0.1")
    assert PathDistribution(core).version in need.specifier, "the range fits the tree"
