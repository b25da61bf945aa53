"""Turns docstrings, which are plain text with ``code``, lists and sections, into reStructuredText."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

_CODE = re.compile(r"``(.+?)``|`([^`\n]+)`", re.DOTALL)
_SECTION = re.compile(r"(Args|Arguments|Returns|Yields|Raises|Attributes|Examples?|Notes?):\s*")
_ITEM = re.compile(r"([-*]|\d+\.)\s+")
_FIELD = re.compile(r"(\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*)(?: \(.*?\))?: +(.*)")


def inline(text: str) -> str:
    """Returns a text with its marks escaped, and code as literals."""
    parts: list[str] = []
    last = 0
    for match in _CODE.finditer(text):
        parts.append(re.sub(r"([\\*_`|])", r"\\\1", text[last : match.start()]))
        code = " ".join((match[1] or match[2]).split())
        before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
        glue = "\\ " if before and not before.isspace() and before not in "([{<-/'\"" else ""
        parts.append(f"{glue}``{code}``" + ("\\ " if after and (after.isalnum() or after in "(_`") else ""))
        last = match.end()
    parts.append(re.sub(r"([\\*_`|])", r"\\\1", text[last:]))
    return "".join(parts)


def document(text: str | None) -> list[str]:
    """Returns a docstring as lines of reStructuredText."""
    return list(_blocks(inspect.cleandoc(text or "").splitlines()))


def summary(text: str | None) -> str:
    """Returns the first sentence of a docstring, on one line."""
    first = " ".join(inspect.cleandoc(text or "").split("\n\n")[0].split())
    match = re.match(r"(.+?[^.][.:])(?= [A-Z`(])", first)
    sentence = match[1] if match and match[1].count("``") % 2 == 0 else first
    return sentence.rstrip(":")


def _blocks(lines: list[str]) -> Iterator[str]:
    position = 0
    while position < len(lines):
        line = lines[position]
        if not line.strip():
            position += 1
            continue
        end = position + 1
        section = _SECTION.fullmatch(line)
        if section:
            while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" ")):
                end += 1
            yield from _section(section[1], _dedent(lines[position + 1 : end]))
        elif line.startswith("```"):
            while end < len(lines) and not lines[end].startswith("```"):
                end += 1
            yield from _code(lines[position + 1 : end])
            end += 1
        elif line.startswith(">>>"):
            while end < len(lines) and lines[end].strip():
                end += 1
            yield from _code(lines[position:end], "pycon")
        elif line.startswith((" ", "|")):
            while end < len(lines) and (lines[end].startswith((" ", "|")) or not lines[end].strip()):
                end += 1
            yield from _code(_dedent(lines[position:end]), "text" if line.startswith("|") else "python")
        elif _ITEM.match(line):
            while end < len(lines) and lines[end].startswith(" "):
                end += 1
            mark = _ITEM.match(line)
            assert mark is not None
            words = " ".join([line[mark.end() :], *(further.strip() for further in lines[position + 1 : end])])
            yield f"{'-' if mark[1] in '-*' else mark[1]} {inline(words)}"
            if end >= len(lines) or not _ITEM.match(lines[end]):
                yield ""
        else:
            while end < len(lines) and lines[end].strip() and not _starts_block(lines[end], lines[position:end]):
                end += 1
            text = inline("\n".join(lines[position:end]))
            yield re.sub(r":\Z", "\\:", text) if text.endswith("::") else text
            yield ""
        position = end


def _starts_block(line: str, before: list[str]) -> bool:
    opens = bool(_SECTION.fullmatch(line)) or line.startswith(("```", ">>>", "| "))
    return opens or bool(_ITEM.match(line)) or (line.startswith("    ") and before[-1].endswith(":"))


def _section(title: str, lines: list[str]) -> Iterator[str]:
    yield f"**{title}**"
    yield ""
    if title.startswith("Example") and any(line.strip() for line in lines):
        yield from _code(lines, "pycon" if lines[0].startswith(">>>") else "python")
        return
    items: list[list[str]] = []
    for line in lines:
        if line.strip() and (not line.startswith(" ") or not items):
            items.append([line.strip()])
        elif line.strip():
            items[-1].append(line.strip())
    if all(_FIELD.match(" ".join(item)) for item in items):
        for item in items:
            field = _FIELD.match(" ".join(item))
            assert field is not None
            yield f"``{field[1]}``"
            yield f"   {inline(field[2])}"
    else:
        yield inline(" ".join(" ".join(item) for item in items))
    yield ""


def _code(lines: list[str], language: str = "python") -> Iterator[str]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    if language == "python":
        try:
            compile("\n".join(lines), "block", "exec")
        except SyntaxError:  # a formula or a layout of memory
            language = "text"
    yield f".. code-block:: {language}"
    yield ""
    yield from (f"   {line}".rstrip() for line in lines)
    yield ""


def _dedent(lines: list[str]) -> list[str]:
    depth = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return [line[depth:] for line in lines]
