"""Design pages are few, short and in their index; references to decisions lead to a record that exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = "0000-template.md"
RECORDS = sorted(file for file in (ROOT / "docs/adr").glob("[0-9]*.md") if file.name != TEMPLATE)
PAGES = sorted(file for file in (ROOT / "docs/design").glob("*.md") if file.name != "index.md")
MOST_PAGES, MOST_WORDS, MOST_COLUMNS = 25, 900, 120
REFERENCE = re.compile(r"(?:\bADR\s|\badr/)(\d{4})\b")
SUFFIXES = (".md", ".py", ".pyi", ".cl", ".toml", ".yml", ".txt", ".c")
NOT_READ = {"generated", "site", "build", "dist", "node_modules"}  # written by tools; hidden folders too


def numbers() -> set[str]:
    """Returns the numbers of the records."""
    return {record.name[:4] for record in RECORDS}


def sources(folder: Path) -> Iterator[Path]:
    """Yields the text files of the repository below ``folder``."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            hidden = path.name.startswith(".") and path.name != ".github"
            if not hidden and path.name not in NOT_READ and not path.name.endswith(".egg-info"):
                yield from sources(path)
        elif path.suffix in SUFFIXES:
            yield path


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """Yields (line, text) of each line of a page but tables and fenced code."""
    fenced = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fenced ^= line.startswith("```")
        if not fenced and not line.startswith("|"):
            yield number, line


def test_there_are_records_and_pages() -> None:
    assert RECORDS
    assert 0 < len(PAGES) <= MOST_PAGES


def test_the_index_has_a_line_for_each_page() -> None:
    index = (ROOT / "docs/design/index.md").read_text(encoding="utf-8")
    titles = [(page, page.read_text(encoding="utf-8").splitlines()[0][2:]) for page in PAGES]
    assert [page.name for page, title in titles if f"| [{title}]({page.name}) |" not in index] == []
    toctree = index.partition("```{toctree}")[2].split()
    assert [page.stem for page in PAGES if page.stem not in toctree] == []


def test_references_name_records_that_exist() -> None:
    known = numbers() | {TEMPLATE[:4]}
    absent = [
        f"{file.relative_to(ROOT)}: {number}"
        for file in sources(ROOT)
        for number in REFERENCE.findall(file.read_text(encoding="utf-8", errors="replace"))
        if number not in known
    ]
    assert absent == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_short(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").split()) <= MOST_WORDS


@pytest.mark.parametrize("page", [*PAGES, *RECORDS], ids=lambda page: page.stem)
def test_lines_of_prose_fit(page: Path) -> None:
    assert [number for number, line in prose(page) if len(line) > MOST_COLUMNS] == []
