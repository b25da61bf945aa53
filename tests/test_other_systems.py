"""netcl installs and imports on every system: pure wheels, markers on driver extras, guarded POSIX modules."""

from __future__ import annotations

import ast
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from monorepo import load_packages
from packaging.requirements import Requirement

# Modules that some systems lack.
ONE_SYSTEM = {
    "fcntl",
    "resource",
    "pwd",
    "grp",
    "termios",
    "syslog",
    "posix",
    "msvcrt",
    "winreg",
    "_winapi",
    "readline",
}
# Calls of `os` that some systems lack, to be looked for with hasattr before use.
ONE_SYSTEM_CALLS = {"register_at_fork", "fork", "sched_getaffinity", "getuid", "geteuid", "killpg", "mkfifo", "statvfs"}

PLACES = {
    "linux x86": {"sys_platform": "linux", "platform_machine": "x86_64"},
    "linux arm": {"sys_platform": "linux", "platform_machine": "aarch64"},
    "macos": {"sys_platform": "darwin", "platform_machine": "arm64"},
    "windows": {"sys_platform": "win32", "platform_machine": "AMD64"},
}


@pytest.fixture(scope="module")
def core_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    core = load_packages()["netcl-core"].folder
    (wheel,) = WheelBuilder(str(core)).build(directory=str(folder), versions=["standard"])
    return Path(wheel)


def test_the_wheel_is_for_every_system(core_wheel: Path) -> None:
    assert core_wheel.name.endswith("-py3-none-any.whl")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("extra", ["", "opencl", "cpu", "pocl", "intel"])
def test_drivers_are_asked_for_only_where_they_exist(core_wheel: Path, place: str, extra: str) -> None:
    with zipfile.ZipFile(core_wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        needs = message_from_string(archive.read(name).decode()).get_all("Requires-Dist") or []
    environment = {**PLACES[place], "extra": extra}
    wanted = {need.name for need in map(Requirement, needs) if need.marker is None or need.marker.evaluate(environment)}
    drivers = {"cpu": {"pocl-binary-distribution"}, "pocl": {"pocl-binary-distribution"}}
    drivers["intel"] = {"intel-opencl-rt", "intel-cmplr-lib-rt"}
    expected = {"numpy", "platformdirs", "opt-einsum"} | ({"pyopencl"} if extra else set())
    expected |= drivers.get(extra, set()) if place == "linux x86" else set()
    assert {name.lower().replace("_", "-") for name in wanted} == expected


def faults(path: Path) -> list[str]:
    """Returns unguarded imports and calls that only some systems have; a guard is a try, an if, or a function."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    text = path.read_text(encoding="utf-8")
    found = []
    for node in tree.body:
        names = {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = {node.module or ""}
        found += [f"line {node.lineno}: {name}" for name in names & ONE_SYSTEM]
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"):
            continue
        if node.attr in ONE_SYSTEM_CALLS and f'hasattr(os, "{node.attr}")' not in text:
            found.append(f"line {node.lineno}: os.{node.attr}")
    return found


SOURCES = [path for package in load_packages().values() for path in package.modules()]


def test_nothing_of_one_system_is_used_unguarded() -> None:
    assert {str(path): found for path in SOURCES if (found := faults(path))} == {}


@pytest.mark.parametrize("text", ["import fcntl", "from resource import getrusage", "import os\nos.fork()"])
def test_a_planted_fault_is_seen(tmp_path: Path, text: str) -> None:
    (tmp_path / "module.py").write_text(text, encoding="utf-8")
    assert len(faults(tmp_path / "module.py")) == 1
