"""tools/check_prose.py: each banned construction is found in every kind of file, and plain text and code pass."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from check_prose import findings, main

PLANTED = (
    "What a kernel returns.",
    "Whether it is done.",
    "Returns the plan, None where there is no plan.",
    "Raises ValueError where the shapes differ.",
    "Uses the copy where it is newer.",
    "The values lie on the device.",
    "The class stands for a leaf.\nThe device stands still.",
    "Counts anew.",
    "Nobody reads it.",
    "Skips those that failed.",
    "The kernel wants a vector.",
)
PLAIN = (
    "Returns the plan if there is one, else None.",
    "The placeholder stands for a tensor.",
    "The mask is 1 where x is positive.",
    "``beside`` is the name of an argument, `anew` of another.",
    "Allocates the buffer again and stores it separately.",
)
FORMS = {".py": '"""Head.\n\n{}\n"""\n', ".md": "{}\n", ".cl": "/* {} */\nkernel void f() {{}}\n"}


@pytest.mark.parametrize("suffix", FORMS)
@pytest.mark.parametrize("text", PLANTED)
def test_a_banned_construction_is_found(tmp_path: Path, suffix: str, text: str) -> None:
    path = tmp_path / f"planted{suffix}"
    # A docstring's first word counts, so the text itself is the docstring there.
    path.write_text(FORMS[suffix].format(text).replace("Head.\n\n", ""), encoding="utf-8")
    assert list(findings(path)), text
    assert main([str(path)]) == 1


@pytest.mark.parametrize("suffix", FORMS)
@pytest.mark.parametrize("text", PLAIN)
def test_plain_english_passes(tmp_path: Path, suffix: str, text: str) -> None:
    path = tmp_path / f"plain{suffix}"
    path.write_text(FORMS[suffix].format(text), encoding="utf-8")
    assert list(findings(path)) == []


def test_the_tree_is_plain_english(capsys: pytest.CaptureFixture[str]) -> None:
    status = main([])
    assert status == 0, capsys.readouterr().out


def test_lines_and_kinds_of_comments(tmp_path: Path) -> None:
    path = tmp_path / "comments.py"
    path.write_text(
        'x = 1\n# Fine here.\n# It lies there.\nmessage = "nobody"  # Whether it is sent.\n', encoding="utf-8"
    )
    assert [line for line, _, _ in findings(path)] == [3, 4]


def test_code_in_markdown_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(
        "# What it is\n\n```\nnobody lies\n```\n\n| a | None where b |\n|-|-|\n\nWhat is it?\n", encoding="utf-8"
    )
    assert [line for line, _, _ in findings(path)] == [7]


def test_code_in_kernels_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cl"
    path.write_text(
        "// A sum.\n// It lies there.\nint beside(int a) {\n    return a;  // Counts anew.\n}\n#define LIES lies(a)\n",
        encoding="utf-8",
    )
    assert [line for line, _, _ in findings(path)] == [2, 4]


def test_lines_of_prose_in_pages_have_at_most_120_characters(root: Path) -> None:
    """Tables, code and headings aside; fragments are lists of one line, and generated lists of names are no prose."""
    apart = {"benchmarks/OPEN.md", *(f"docs/reference/{name}.md" for name in ("torch", "coverage", "array-api"))}
    longer = []
    for path in sorted(root.glob("**/*.md")):
        place = path.relative_to(root)
        if {".venv", ".nox", "node_modules", "changes", "generated"} & {*place.parts} or place.as_posix() in apart:
            continue
        code = False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            code ^= line.lstrip().startswith("```")
            is_prose = not code and not line.startswith("    ") and not line.lstrip().startswith(("|", "#", "<"))
            if is_prose and len(line) > 120 and " " in re.sub("`[^`]*(`|$)", "", line[:120].lstrip("* ")):
                longer.append(f"{place}:{number}")
    assert not longer
