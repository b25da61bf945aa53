"""The language of the templates: OpenCL C with parts, sections, and kernels that declare what they read and write.

A template has lines of this form::

    ${part}                                   the lines of a part, as far indented; within a line, a part of one line
    $if FIRST and not VALUES_ONLY             lines of some programs; $else begins the lines of the others
    $for i < ROWS                             lines that are repeated, with the numbers 0, 1, ... in place of ${i}
    $kernel LOOPS [GROUP, 1, 1] sums(read STORAGE x, write long* out, local REAL work, long size if SIZED) {
    $end                                      the end of $if or $for

Conditions and counts are definitions of the program, or the names of its templates. ``read`` and ``write`` declare
buffers with memory that only this argument gives access to, unless their type has a ``*``; the numbers in brackets are
the size of a work-group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from textwrap import indent

from netcl.core.expr.kernel_source import Argument, KernelText, Role, kernel_head

_PART = re.compile(r"\$\{(\w+)\}")
_WHOLE_LINE = re.compile(r"(\s*)\$\{(\w+)\}\s*")
_KERNEL, _OPEN = "$kernel ", ") {"
_GROUP = (("[", "__attribute__((reqd_work_group_size("), ("]", ")))"))
_DECLARED = tuple(f"{role.value} " for role in Role if role is not Role.SCALAR)


def expanded(text: str, known: Mapping[str, object], parts: Mapping[str, str]) -> KernelText:
    """Returns the OpenCL C of a template by its conditions, counts and parts. Raises KeyError for a missing part."""
    kernels: dict[str, tuple[Argument, ...]] = {}
    lines: list[str] = []
    declaration = ""
    for line in _sections(iter(filled(text, parts).splitlines()), known):
        if declaration or line.startswith(_KERNEL):
            declaration += line.strip() + " "
            if not line.endswith(_OPEN):
                continue
            line, declaration = _head(declaration[len(_KERNEL) :].strip(), known, kernels), ""
        if "${" in line and (missing := _PART.search(line)):
            raise KeyError(f"expected a part {missing[1]!r} for the line {line.strip()!r}, got {', '.join(parts)}")
        lines.append(line)
    return KernelText("\n".join(lines) + "\n", kernels)


def filled(text: str, parts: Mapping[str, str]) -> str:
    """Returns the text with ``parts`` in their places; other places stay. A line of its own with an empty part goes."""
    lines: list[str] = []
    for line in text.splitlines():
        if "${" not in line:
            lines.append(line)
            continue
        whole = _WHOLE_LINE.fullmatch(line)
        if whole is None or whole[2] not in parts:
            lines.append(_PART.sub(lambda match: parts.get(match[1], match[0]), line))
        elif parts[whole[2]]:
            lines.append(indent(parts[whole[2]], whole[1]))
    return "\n".join(lines)


def _sections(
    lines: Iterator[str], known: Mapping[str, object], within: bool = True, chosen: bool = True
) -> Iterator[str]:
    """Yields the lines up to the end of a section that are ``chosen``, if the section around them is (``within``)."""
    for line in lines:
        word, _, rest = line.strip().partition(" ") if "$" in line else ("", "", "")
        if word == "$if":
            yield from _sections(lines, known, within and chosen, _holds(rest, known))
        elif word == "$else":
            chosen = not chosen
        elif word == "$for":
            name, _, count = rest.partition(" < ")
            repeated = list(_sections(lines, known))
            for number in range(int(str(known[count])) if within and chosen else 0):
                yield from (text.replace(f"${{{name}}}", str(number)) for text in repeated)
        elif word == "$end":
            return
        elif within and chosen:
            yield line


def _holds(condition: str, known: Mapping[str, object]) -> bool:
    return any(all(_is_true(term, known) for term in terms.split(" and ")) for terms in condition.split(" or "))


def _is_true(term: str, known: Mapping[str, object]) -> bool:
    return bool(known.get(term.removeprefix("not "), 0)) != term.startswith("not ")


def _head(declaration: str, known: Mapping[str, object], kernels: dict[str, tuple[Argument, ...]]) -> str:
    """Returns the head of a declared kernel, and adds its arguments to ``kernels``."""
    before, _, declared = declaration.removesuffix(_OPEN).rpartition("(")
    attributes, _, name = before.rpartition(" ")
    for mark, text in _GROUP:
        attributes = attributes.replace(mark, text)
    arguments = tuple(_arguments(declared, known))
    defined = known.get(name)
    kernels[defined if isinstance(defined, str) else name] = arguments
    return kernel_head(name, arguments, attributes)


def _arguments(declared: str, known: Mapping[str, object]) -> Iterator[Argument]:
    for text in declared.split(","):
        declaration, _, condition = text.strip().partition(" if ")
        if condition and not _holds(condition, known):
            continue
        role, *words = declaration.split() if declaration.startswith(_DECLARED) else ("scalar", *declaration.split())
        kind = " ".join(words[:-1])
        is_buffer = role in ("read", "write")
        yield Argument(Role(role), kind.removesuffix("*"), words[-1], alone=is_buffer and not kind.endswith("*"))
