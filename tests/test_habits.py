"""Habits that a change keeps: sizes of packages, files of changes, versions by hatch, and decisions with a status."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import size_budget
from monorepo import OWNED, SETTINGS, load_packages, tomllib

ADR = "docs/adr"
BUDGET = {"netcl-x": {"lines": 1000}}


def test_no_package_is_larger_than_its_budget(root: Path) -> None:
    budget = tomllib.loads((root / size_budget.BUDGET).read_text(encoding="utf-8"))
    assert size_budget.faults(size_budget.counted(root), budget) == []


@pytest.mark.parametrize(
    ("lines", "entry", "said"),
    [
        (1010, {}, None),
        (1011, {}, "netcl-x has 1,011 lines, expected at most 1,010"),
        (1311, {"grown": [{"lines": 300, "purpose": "fp8", "removed": "tiles"}]}, "expected at most 1,310"),
        (1310, {"grown": [{"lines": 300, "purpose": "fp8", "removed": "tiles"}]}, None),
        (1310, {"grown": [{"lines": 300, "purpose": "fp8", "removed": ""}]}, "expected lines, purpose and removed"),
        (1310, {"grown": [{"lines": 300, "purpose": "fp8"}]}, "expected lines, purpose and removed"),
    ],
)
def test_growth_needs_a_line_that_says_what_was_removed(lines: int, entry: dict[str, object], said: str | None) -> None:
    messages = size_budget.faults({"netcl-x": lines}, {"netcl-x": {"lines": 1000, **entry}})
    assert (not messages) if said is None else (said in messages[0])


def test_a_package_without_a_figure_and_a_figure_without_a_package_are_named() -> None:
    messages = size_budget.faults({"netcl-y": 5}, BUDGET)
    assert "netcl-y has no figure" in messages[0]
    assert "netcl-x is in tools/size_budget.toml and is no package" in messages[1]


def test_lines_of_python_files_in_src_are_counted(tmp_path: Path) -> None:
    for folder, file in (
        ("packages/netcl-x", "src/netcl/x.py"),
        ("packages/netcl-x", "src/netcl/x.cl"),
        ("extensions/y", "src/y.py"),
    ):
        (tmp_path / folder / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / file).write_text("a\nb\n", encoding="utf-8")
        (tmp_path / folder / "pyproject.toml").touch()
    assert size_budget.counted(tmp_path) == {"y": 2, "netcl-x": 2}


def test_files_of_changes_have_names_that_towncrier_tells_apart(root: Path) -> None:
    wrong = [
        str(path.relative_to(root))
        for path in (*root.glob("packages/*/changes/*"), *root.glob("extensions/*/changes/*"))
        if not re.fullmatch(r"\+[a-z0-9_-]+\.(feature|bugfix|doc|removal|misc)\.md|\.gitkeep", path.name)
    ]
    assert wrong == [], "expected changes/+<topic>.<feature|bugfix|doc|removal|misc>.md, such as +threads.bugfix.md"


def test_each_changelog_has_the_mark_of_towncrier_and_each_version_once(root: Path) -> None:
    for package in load_packages(root).values():
        text = (package.folder / "CHANGELOG.md").read_text(encoding="utf-8")
        settings = tomllib.loads((package.folder / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
        assert text.count(settings["start_string"]) == 1, package.name
        versions = re.findall(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", text, re.MULTILINE)
        assert versions, package.name
        assert len(set(versions)) == len(versions), package.name


@pytest.mark.parametrize("name", OWNED)
def test_hatch_reads_the_version(root: Path, name: str) -> None:
    package = load_packages(root)[name]
    command = [sys.executable, "-m", "hatchling", "version"]
    done = subprocess.run(command, cwd=package.folder, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == package.version


def test_pre_commit_runs_the_ruff_of_nox_and_the_check_of_prose(root: Path) -> None:
    config = (root / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    lint = SETTINGS["dependency-groups"]["lint"]
    assert set(re.findall(r'"(ruff[^"]*)"', config)) == {line for line in lint if line.startswith("ruff")}
    assert "entry: python tools/check_prose.py" in config


def decisions(root: Path) -> dict[str, Path]:
    """Returns the decisions by number, without the template."""
    return {path.name[:4]: path for path in sorted((root / ADR).glob("0*.md")) if not path.name.startswith("0000")}


def test_each_decision_has_a_title_with_its_number_and_a_status(root: Path) -> None:
    known, faults = decisions(root), []
    for number, path in known.items():
        title, *rest = path.read_text(encoding="utf-8").splitlines()
        status = re.search(r"Status: (accepted|superseded by \[(\d{4})\])", "\n".join(rest[:5]))
        if not re.match(rf"# {number}:? \S", title):
            faults.append(f"{path.name}: expected a first line '# {number} Title', got {title!r}")
        if status is None:
            faults.append(
                f"{path.name}: expected 'Status: accepted' or 'Status: superseded by [NNNN](...)' below the title"
            )
        elif status[2] is not None and (status[2] not in known or status[2] <= number):
            faults.append(f"{path.name}: it is superseded by {status[2]}, which is no later decision")
    assert faults == []


def test_the_index_lists_each_decision_once_by_its_title(root: Path) -> None:
    index = (root / ADR / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\d{4})\]\((\S+)\) \| (.+) \|$", index, re.MULTILINE)
    titles = {
        number: re.sub(r"^# \d{4}:? ", "", path.read_text(encoding="utf-8").splitlines()[0])
        for number, path in decisions(root).items()
    }
    assert [(number, file) for number, file, _ in rows] == [(n, path.name) for n, path in decisions(root).items()]
    assert {number: title for number, _, title in rows} == titles
