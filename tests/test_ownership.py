"""Two distributions that own one netcl file are found; the message names the one to uninstall."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

FIND = "packages/netcl-core/src/netcl/core/testing/distribution_check.py"


def put(site: Path, name: str, version: str, *files: str, requires: str = "") -> None:
    """Writes an installed distribution into the folder `site`: its record, and the files, empty."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n"
    (info / "METADATA").write_text(head + (f"Requires-Dist: {requires}\n" if requires else ""), encoding="utf-8")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files), encoding="utf-8")
    # From Python 3.12 on importlib.metadata leaves out what is recorded and not there.
    for file in files:
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).touch()


def conflicts(root: Path, *sites: Path) -> list[str]:
    check = runpy.run_path(str(root / FIND))["find_conflicts"]
    found: list[str] = check(distributions(path=[str(site) for site in sites]))
    return found


def test_the_unrelated_netcl_is_named_with_the_cure(root: Path, tmp_path: Path) -> None:
    put(tmp_path, "netcl", "0.4.4", "netcl/__init__.py", "netcl/core/tensor/tensor.py", "netcl/__pycache__/x.pyc")
    put(tmp_path, "netcl-core", "0.1.0", "netcl/__init__.py", "netcl/core/tensor/tensor.py", "netcl/__pycache__/x.pyc")
    put(tmp_path, "netcl-nn", "0.1.0", "netcl/nn/__init__.py")
    (message,) = conflicts(root, tmp_path)
    assert "netcl 0.4.4 and netcl-core 0.1.0 both own" in message
    assert "and 1 more" in message
    assert "pip uninstall netcl, then pip install --force-reinstall --no-deps netcl-core" in message


def test_a_second_core_under_another_name_is_found(root: Path, tmp_path: Path) -> None:
    put(tmp_path, "netcl-core", "0.1.0", "netcl/core/tensor/tensor.py")
    put(tmp_path, "netcl_core_numpy", "0.1.0", "netcl/core/tensor/tensor.py")
    (message,) = conflicts(root, tmp_path)
    assert "pip uninstall netcl-core-numpy, then" in message


def test_an_extension_is_ours(root: Path, tmp_path: Path) -> None:
    put(tmp_path, "netcl", "0.4.4", "netcl/torch/__init__.py")
    put(tmp_path, "netcl-torch", "0.1.0", "netcl/torch/__init__.py", requires="netcl-core<0.2,>=0.1")
    (message,) = conflicts(root, tmp_path)
    assert message.endswith("pip uninstall netcl, then pip install --force-reinstall --no-deps netcl-torch")


def test_layers_side_by_side_are_well(root: Path, tmp_path: Path) -> None:
    put(tmp_path, "netcl-core", "0.1.0", "netcl/__init__.py", "netcl/core/__init__.py")
    put(tmp_path, "netcl-nn", "0.1.0", "netcl/nn/__init__.py")
    assert conflicts(root, tmp_path) == []


def test_two_environments_do_not_conflict(root: Path, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        put(tmp_path / folder, "netcl-core", "0.1.0", "netcl/__init__.py")
    assert conflicts(root, tmp_path / "one", tmp_path / "two") == []


def test_this_environment_is_well(root: Path) -> None:
    assert conflicts(root, *(Path(entry) for entry in sys.path if entry)) == []


def test_pytest_refuses_to_run_beside_a_conflict(root: Path, tmp_path: Path) -> None:
    put(tmp_path, "netcl", "0.4.4", "netcl/__init__.py")
    put(tmp_path, "netcl-core", "0.1.0", "netcl/__init__.py")
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/test_ownership.py"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "pip uninstall netcl" in done.stderr
