"""Sibling version ranges: they fit the tree, a deviation is found, and `--fix` corrects it."""

from __future__ import annotations

import shutil
from pathlib import Path

import check_versions
import pytest
from monorepo import OWNED, SETTINGS, load_packages, load_released

from netcl.core.process.deprecation import deprecated
from netcl.core.testing.distribution_check import OURS
from netcl.trainer.versions import versions


def copy_metadata(root: Path, target: Path) -> None:
    """Copies what the check reads: each pyproject.toml and each `__about__.py`."""
    for package in load_released(root).values():
        for path in (package.folder / "pyproject.toml", package.about):
            copy = target / path.relative_to(root)
            copy.parent.mkdir(parents=True)
            shutil.copy(path, copy)


def test_lists_that_cannot_read_the_list_of_packages_equal_it() -> None:
    assert tuple(SETTINGS["tool"]["netcl"]["packages"]) == OURS
    assert set(SETTINGS["tool"]["uv"]["sources"]) == set(OWNED)
    assert {line.split()[0] for line in versions()} >= set(OWNED)


def test_ranges_fit_the_tree(root: Path) -> None:
    assert check_versions.check(root) == []


def test_a_new_series_is_seen_and_fixed(root: Path, tmp_path: Path) -> None:
    copy_metadata(root, tmp_path)
    about = load_packages(tmp_path)["netcl-core"].about
    about.write_text(about.read_text(encoding="utf-8").replace('"0.1.', '"0.2.'), encoding="utf-8")
    faults = check_versions.check(tmp_path)
    assert any("netcl-nn requires netcl-core>=0.1,<0.2" in fault for fault in faults)
    assert check_versions.check(tmp_path, fix=True) == []
    assert check_versions.check(tmp_path) == []
    assert "netcl-core>=0.2,<0.3" in load_packages(tmp_path)["netcl-data"].extras["device"]
    assert "netcl-core>=0.2,<0.3" in load_released(tmp_path)["torch-netcl"].dependencies


def test_a_requirement_that_points_up_is_seen(root: Path, tmp_path: Path) -> None:
    copy_metadata(root, tmp_path)
    path = tmp_path / "packages/netcl-nn/pyproject.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("netcl-core>=", "netcl-trainer>="), encoding="utf-8")
    assert check_versions.check(tmp_path)[0] == "netcl-nn requires netcl-trainer, which is not below it"


def test_what_a_layer_checks_at_import_is_compared_and_fixed(root: Path, tmp_path: Path) -> None:
    copy_metadata(root, tmp_path)
    about = load_packages(tmp_path)["netcl-nn"].about
    about.write_text(about.read_text(encoding="utf-8").replace("netcl-core>=0.1,<0.2", "netcl-core>=0.1,<0.9"), "utf-8")
    (fault,) = check_versions.check(tmp_path)
    assert "netcl-nn has REQUIRES = ('netcl-core>=0.1,<0.9'," in fault
    assert check_versions.check(tmp_path, fix=True) == []
    assert check_versions.check(tmp_path) == []


@pytest.mark.parametrize(("version", "overdue"), [("0.1.9", False), ("0.2.0", False), ("0.3.0", True), ("1.0.0", True)])
def test_a_deprecated_name_lives_two_minor_versions(root: Path, tmp_path: Path, version: str, overdue: bool) -> None:
    copy_metadata(root, tmp_path)
    package = load_packages(tmp_path)["netcl-torch"]  # which none requires in a range
    package.about.write_text(package.about.read_text(encoding="utf-8").replace("0.1.0", version), encoding="utf-8")
    mark = "from netcl.core.process.deprecation import deprecated\n@deprecated('0.1', 'write new()')\ndef old(): ...\n"
    (package.source / "torch/former.py").write_text(mark, encoding="utf-8")
    line = f"netcl-torch {version} still has netcl/torch/former.py: old, which ends in 0.3"
    assert check_versions.check(tmp_path) == [line] * overdue


def test_a_deprecated_name_warns_at_the_callers_line_and_works() -> None:
    @deprecated("0.1", "write new()")
    def old(value: int) -> int:
        return value + 1

    @deprecated("0.1", "write New")
    class Old:
        def __init__(self, value: int) -> None:
            self.value = value

    text = r"old is deprecated since 0.1 and is removed in 0.3: write new\(\)"
    with pytest.warns(DeprecationWarning, match=text) as seen:
        assert old(1) == 2
    assert seen[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="Old is deprecated since 0.1 and is removed in 0.3: write New"):
        assert Old(3).value == 3
