"""Checks the English of docstrings, comments, kernel comments and Markdown by a list of banned constructions.

    python tools/check_prose.py [PATH ...]

Prints ``file:line: construction: text`` for each finding and ends with 1 if there is one. A PATH is a file or a folder;
the default is everything that the project publishes: sources, documentation, READMEs and change notes.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

from monorepo import FOLDERS, ROOT

DEFAULT = (
    *(f"{folder}/*/{part}" for folder in FOLDERS for part in ("src", "README.md", "CHANGELOG.md", "changes")),
    "docs",
    "*.md",
)

# A docstring, comment or paragraph that begins with one of these is a clause without a main verb.
OPENING = re.compile(r"(What|Whether|How|Where|Whose)\b")
# (construction with its replacement, pattern)
BANNED = (
    ('"None where": write "None if"', re.compile(r"\bNone where\b", re.I)),
    ('"...Error where": write "raises ...Error if"', re.compile(r"\w+Error where\b")),
    ('"where it", "where there": write "if"', re.compile(r"\bwhere (it|there)\b", re.I)),
    ('"lie", "lies", "stands": write "is", "is stored"', re.compile(r"\b(lies?|lying|stands(?! for))\b", re.I)),
    ('"beside", "apart", "anew": write "next to", "separately", "again"', re.compile(r"\b(beside|apart|anew)\b", re.I)),
    ('"nobody", "somebody", "whoever": name the caller or thread', re.compile(r"\b(nobody|somebody|whoever)\b", re.I)),
    ('"those that", "those whose": name the things', re.compile(r"\bthose (that|whose|who)\b", re.I)),
    ("a kernel does not want or meet anything", re.compile(r"\bkernels? (wants?|meets?)\b", re.I)),
)
CODE = re.compile(r"``.+?``|`[^`]+`")


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yields (line, text) of each docstring, and of each block of consecutive comment lines, in ``source``."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) or not node.body:
            continue
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            yield first.lineno, first.value.value
    start, block, last = 0, "", -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, text = token.start[0], token.string.lstrip("#! ")
        if line == last + 1 and not token.line[: token.start[1]].strip():
            block += "\n" + text
        else:
            if block:
                yield start, block
            start, block = line, text
        last = line
    if block:
        yield start, block


def kernel_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yields (line, text) of each ``/* */`` comment and of each block of ``//`` lines in OpenCL C."""
    for comment in re.finditer(r"/\*([\s\S]*?)\*/|(?:^[ \t]*//.*\n?)+|//.*", source, re.M):
        text = comment[1] if comment[1] is not None else re.sub(r"^[ \t]*//[ \t]?", "", comment[0], flags=re.M)
        yield source.count("\n", 0, comment.start()) + 1, text


def markdown_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yields (line, text) of each paragraph, list item and table row in Markdown, without headings and fenced code."""
    fenced, start, block = False, 0, ""
    for number, line in enumerate(source.splitlines(), 1):
        fence = line.lstrip().startswith("```")
        item = re.match(r"\s*([-*|]|\d+\.)\s", line)
        if fence or fenced or item or not line.strip() or line.startswith(("#", "    ")):
            if block:
                yield start, block
            block = ""
            fenced ^= fence
            if fence or fenced or not item:
                continue
        if not block:
            start = number
        block += re.sub(r"^\s*([-*]|\d+\.)\s+", "", line) + "\n"
    if block:
        yield start, block


READERS = {".py": python_texts, ".cl": kernel_texts, ".md": markdown_texts}


def findings(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yields (line, construction, excerpt) for each banned construction in the prose of ``path``."""
    for start, text in READERS[path.suffix](path.read_text(encoding="utf-8")):
        stripped = text.strip()
        opening = OPENING.match(stripped)
        if opening and not stripped.endswith("?"):
            yield start, f'begins with "{opening[1]}": say what it is or returns', stripped.split("\n")[0]
        # Code keeps its length, so that positions stay as in the text.
        prose = CODE.sub(lambda code: re.sub(r"[^\n]", "_", code[0]), text)
        for construction, pattern in BANNED:
            for match in pattern.finditer(re.sub(r"\n", " ", prose)):
                line = text.count("\n", 0, match.start())
                yield start + line, construction, text.split("\n")[line].strip()


def files(paths: Sequence[str]) -> Iterator[Path]:
    """Yields the files with prose among ``paths`` and in the folders among them."""
    roots = [Path(path) for path in paths] or [folder for pattern in DEFAULT for folder in sorted(ROOT.glob(pattern))]
    for root in roots:
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.suffix in READERS:
                yield path


def main(arguments: Sequence[str]) -> int:
    """Prints every finding; returns 1 if there is one, else 0."""
    faults = [(path, *finding) for path in files(arguments) for finding in findings(path)]
    for path, line, construction, excerpt in faults:
        shown = path.resolve()
        print(f"{shown.relative_to(ROOT) if shown.is_relative_to(ROOT) else path}:{line}: {construction}: {excerpt}")
    return int(bool(faults))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
