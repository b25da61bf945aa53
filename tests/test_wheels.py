"""The wheels: what they contain and declare, and that a stray or missing file is found."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import check_wheels
import pytest
from hatchling.builders.wheel import WheelBuilder
from monorepo import OWNED, load_packages


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all seven wheels and the second core, built from the tree."""
    root = Path(check_wheels.ROOT)
    folder = tmp_path_factory.mktemp("wheels")
    for package in load_packages(root).values():
        list(WheelBuilder(str(package.folder)).build(directory=str(folder), versions=["standard"]))
    second = root / "alternatives/netcl-core-numpy"
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "numpy")]
    subprocess.run(command, cwd=second, check=True, capture_output=True)
    return folder


def test_contents(wheels: Path) -> None:
    assert check_wheels.check(wheels) == []


def test_only_core_ships_the_front_door(wheels: Path) -> None:
    doors = [path.name for path in wheels.glob("*.whl") if "netcl/__init__.py" in zipfile.ZipFile(path).namelist()]
    assert len(doors) == 1
    assert doors[0].startswith("netcl_core-")


def test_the_second_core_has_no_opencl_file(wheels: Path) -> None:
    (second,) = (wheels / "numpy").glob("*.whl")
    names = zipfile.ZipFile(second).namelist()
    assert not [name for name in names if name.endswith(".cl") or "backend/opencl" in name]
    assert "netcl/core/backend/protocol.py" in names


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [("netcl/__init__.py", "belongs to netcl-core"), ("tests/test_x.py", "does not own"), ("netcl/io/x.py", "not in")],
)
def test_a_stray_file_is_seen(wheels: Path, tmp_path: Path, entry: str, complaint: str) -> None:
    (wheel,) = wheels.glob("netcl_optim-*.whl")
    copy = shutil.copy(wheel, tmp_path)
    with zipfile.ZipFile(copy, "a") as archive:
        archive.writestr(entry, "")
    assert any(complaint in fault for fault in check_wheels.check_wheel(Path(copy)))


def test_a_missing_file_is_seen(wheels: Path, tmp_path: Path) -> None:
    (wheel,) = wheels.glob("netcl_optim-*.whl")
    copy = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(copy, "w") as new:
        for name in old.namelist():
            if not name.endswith("py.typed"):
                new.writestr(name, old.read(name))
    faults = check_wheels.check_wheel(copy)
    assert f"{wheel.name} lacks netcl/optim/py.typed" in faults


def test_metadata_of_all_packages_agrees(root: Path) -> None:
    packages = load_packages(root)
    assert list(packages) == list(OWNED)
    licence = (root / "LICENSE").read_bytes()
    for name, package in packages.items():
        assert package.project["license"] == "MIT", name
        assert package.project["requires-python"] == ">=3.10", name
        assert "test" in package.extras, name
        assert (package.folder / "LICENSE").read_bytes() == licence, name
        for file in ("README.md", "CHANGELOG.md"):
            assert (package.folder / file).read_text(encoding="utf-8").startswith("# "), f"{name}: {file}"


def test_the_second_core_requires_what_the_first_does(root: Path) -> None:
    from monorepo import tomllib

    text = (root / "alternatives/netcl-core-numpy/pyproject.toml").read_text(encoding="utf-8")
    second, first = tomllib.loads(text)["project"], load_packages(root)["netcl-core"]
    assert second["dependencies"] == first.dependencies
    assert set(second["optional-dependencies"]) == set(first.extras)
    assert second["optional-dependencies"]["test"] == first.extras["test"]


def test_stubs_for_checkouts_are_alike(root: Path) -> None:
    stubs = {p.name: p.source / "__init__.pyi" for p in load_packages(root).values() if p.name != "netcl-core"}
    assert len({path.read_text(encoding="utf-8") for path in stubs.values()}) == 1
