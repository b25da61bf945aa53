"""The wheels: what they contain and declare, and that a stray or missing file is found."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import check_wheels
import project_urls
import pytest
import write_conda_recipe
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from monorepo import OWNED, load_packages, load_released, tomllib

from netcl.core.pyinstaller import hook_dirs


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with all wheels, the second core and netcl-conformance, built from the tree."""
    root = Path(check_wheels.ROOT)
    folder = tmp_path_factory.mktemp("wheels")
    sources = [package.folder for package in load_released(root).values()]
    for source in (*sources, root / "alternatives/netcl-conformance"):
        list(WheelBuilder(str(source)).build(directory=str(folder), versions=["standard"]))
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


def test_core_ships_the_hook_of_pyinstaller(wheels: Path) -> None:
    (core,) = wheels.glob("netcl_core-*.whl")
    with zipfile.ZipFile(core) as archive:
        (entry_points,) = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        assert "netcl/core/pyinstaller/hooks/hook-netcl.py" in archive.namelist()
        assert "hook-dirs = netcl.core.pyinstaller:hook_dirs" in archive.read(entry_points).decode("utf-8")
    (folder,) = hook_dirs()
    assert (Path(folder) / "hook-netcl.py").is_file()


def test_the_second_core_has_no_opencl_file(wheels: Path) -> None:
    (second,) = (wheels / "numpy").glob("*.whl")
    names = zipfile.ZipFile(second).namelist()
    assert not [name for name in names if name.endswith(".cl") or "backend/opencl" in name]
    assert "netcl/core/engine/protocol.py" in names


def test_the_second_core_is_built_from_its_source_archive(wheels: Path, root: Path, tmp_path: Path) -> None:
    def build(target: str, folder: Path) -> None:
        command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(tmp_path / "built")]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)

    build("sdist", root / "alternatives/netcl-core-numpy")
    (archive,) = (tmp_path / "built").glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    build("wheel", unpacked)
    (built,), (second,) = (tmp_path / "built").glob("*.whl"), (wheels / "numpy").glob("*.whl")
    with zipfile.ZipFile(built) as theirs, zipfile.ZipFile(second) as ours:
        assert sorted(theirs.namelist()) == sorted(ours.namelist())
        names = [name for name in ours.namelist() if not name.endswith("/RECORD")]
        assert {name: theirs.read(name) for name in names} == {name: ours.read(name) for name in names}


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


@pytest.mark.parametrize(
    ("entry", "complaint"), [("netcl/core/x.py", "not in the sources"), ("netcl_conformance/x.json", "not in the")]
)
def test_a_stray_file_of_the_kit_is_seen(wheels: Path, tmp_path: Path, entry: str, complaint: str) -> None:
    (wheel,) = wheels.glob("netcl_conformance-*.whl")
    assert check_wheels.check_wheel(wheel) == []
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


def test_a_plugin_has_no_file_in_the_namespace(wheels: Path, tmp_path: Path) -> None:
    (wheel,) = wheels.glob("torch_netcl-*.whl")
    copy = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(copy, "w") as new:
        for name in old.namelist():
            if name != "torch_netcl/rows.py":
                new.writestr(name, old.read(name))
        new.writestr("netcl/torch/stray.py", "")
    faults = check_wheels.check_wheel(copy)
    assert f"{wheel.name} lacks torch_netcl/rows.py" in faults
    assert f"{wheel.name} has netcl/torch/stray.py, which torch-netcl does not own" in faults


def test_metadata_of_all_packages_agrees(root: Path) -> None:
    packages = load_released(root)
    assert [name for name in packages if name in OWNED] == list(OWNED)
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


def test_every_layer_above_core_passes_the_devices_on(root: Path) -> None:
    packages = load_packages(root)
    assert packages["netcl-core"].extras["all"] == ["netcl-core[cpu,intel]"]
    for name, package in packages.items():
        if name not in ("netcl-core", "netcl-data"):
            for extra in ("cpu", "intel", "opencl", "all"):
                assert f"netcl-core[{extra}]>=0.1,<0.2" in package.extras[extra], name


def test_the_conda_recipe_is_that_of_the_packages(root: Path) -> None:
    assert write_conda_recipe.recipe(root) == (root / "conda/recipe.yaml").read_text(encoding="utf-8")


def test_metadata_has_the_links_of_the_one_repository(root: Path, tmp_path: Path) -> None:
    assert project_urls.check(root) == []
    for path in project_urls.released(root):
        copy = tmp_path / path.relative_to(root)
        copy.parent.mkdir(parents=True)
        shutil.copy(path, copy)
    settings = (root / "pyproject.toml").read_text(encoding="utf-8")
    named = re.sub('^repository = ".*"$', 'repository = "https://example.org/netcl"', settings, flags=re.MULTILINE)
    (tmp_path / "pyproject.toml").write_text(named, encoding="utf-8")
    assert len(project_urls.check(tmp_path)) == len(OWNED) + 2  # with torch-netcl and netcl-conformance
    project_urls.check(tmp_path, fix=True)
    assert project_urls.check(tmp_path) == []
    links = load_packages(tmp_path)["netcl-nn"].project["urls"]
    assert links["Issues"] == "https://example.org/netcl/issues"
    assert links["Source"] == "https://example.org/netcl/tree/main/packages/netcl-nn"
    kit = (tmp_path / "alternatives/netcl-conformance/pyproject.toml").read_text(encoding="utf-8")
    assert 'Source = "https://example.org/netcl/tree/main/alternatives/netcl-conformance"' in kit


@pytest.mark.parametrize("name", ["netcl-core", "netcl-autograd"])
def test_a_source_archive_has_the_stubs_and_needs_hatchling_alone(root: Path, tmp_path: Path, name: str) -> None:
    list(SdistBuilder(str(root / "packages" / name)).build(directory=str(tmp_path)))
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    stubs = tomllib.loads((unpacked / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"][
        "artifacts"
    ]
    assert [stub for stub in stubs if not (unpacked / stub).is_file()] == []
    assert WheelBuilder(str(unpacked)).config.dependencies == []
    assert "numpy>=1.24" in WheelBuilder(str(root / "packages" / name)).config.dependencies


def test_packages_have_one_hook_for_stubs(root: Path) -> None:
    hooks = [root / "packages" / name / "hatch_build.py" for name in ("netcl-core", "netcl-autograd")]
    assert len({hook.read_text(encoding="utf-8") for hook in hooks}) == 1


def test_stubs_for_checkouts_are_alike(root: Path) -> None:
    stubs = {p.name: p.source / "__init__.pyi" for p in load_packages(root).values() if p.name != "netcl-core"}
    assert len({path.read_text(encoding="utf-8") for path in stubs.values()}) == 1
