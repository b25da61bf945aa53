"""Sibling version ranges: they fit the tree, a deviation is found, and `--fix` corrects it."""

from __future__ import annotations

import shutil
from pathlib import Path

import check_versions
from monorepo import OWNED, SETTINGS, load_packages

from netcl.core.testing.distribution_check import OURS
from netcl.trainer.versions import versions


def copy_metadata(root: Path, target: Path) -> None:
    """Copy what the check reads: each pyproject.toml and each `__about__.py`."""
    for package in load_packages(root).values():
        for path in (package.folder / "pyproject.toml", package.about):
            copy = target / path.relative_to(root)
            copy.parent.mkdir(parents=True)
            shutil.copy(path, copy)


def test_lists_that_cannot_read_the_list_of_packages_equal_it() -> None:
    assert tuple(OWNED) == OURS
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


def test_a_requirement_that_points_up_is_seen(root: Path, tmp_path: Path) -> None:
    copy_metadata(root, tmp_path)
    path = tmp_path / "packages/netcl-nn/pyproject.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("netcl-core>=", "netcl-trainer>="), encoding="utf-8")
    assert check_versions.check(tmp_path) == ["netcl-nn requires netcl-trainer, which is not below it"]
