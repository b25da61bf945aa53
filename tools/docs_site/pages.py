"""Writes the pages of the reference, as reStructuredText, from the objects themselves.

    python tools/docs_site/pages.py docs/reference/api

A page with unchanged text is not written again, so that Sphinx reads only what changed.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs_site.markup import document
from docs_site.names import Entry, entries
from docs_site.samples import Sample, with_outputs
from docs_site.signatures import parameters
from docs_site.topics import TOPICS, Topic, page_of, section_of
from netcl.trainer import extensions
from netcl.trainer.cli import parser

_PRINTED = 12  # lines of an output that are shown
_SHOWN = ("__call__", "__enter__", "__getitem__", "__len__", "__iter__")
# The order of a section: classes first, modules last.
_KINDS = ("class", "function", "exception", "data", "module")


def write(folder: Path) -> None:
    """Writes all pages below ``folder`` and removes the pages of topics that are gone."""
    every = entries()
    public = {id(entry.value) for entry in every if inspect.isclass(entry.value)}
    examples = with_outputs(folder.parent / "samples.json")
    pages: dict[str, list[str]] = {}
    for distribution, topics in TOPICS.items():
        index = [*_title(distribution, "="), f"{_role(distribution)}", "", ".. toctree::", "   :maxdepth: 1", ""]
        for topic in topics:
            chosen = [entry for entry in every if entry.distribution == distribution and page_of(entry) is topic]
            if not chosen:
                continue
            index.append(f"   {topic.slug}")
            lines = [*_title(topic.title, "="), topic.lead, ""]
            for heading, group in _sections(topic, chosen):
                if heading:
                    lines += _title(heading, "-")
                lines += _table(group)
                for entry in group:
                    lines += _entry(entry, public, examples.get(entry.row.name if entry.row else entry.name))
            pages[topic.slug] = lines
        if distribution == "netcl-trainer":
            index.append("   commands")
            pages["commands"] = _commands(examples)
        pages[distribution] = index
    pages["index"] = [
        *_title("Names by distribution", "="),
        "Every public name, with its signature, from the docstrings. The search finds names and words.",
        "",
        *(".. toctree::", "   :maxdepth: 2", "", *(f"   {name}" for name in TOPICS)),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in pages.items():
        keep(folder / f"{name}.rst", "\n".join(lines) + "\n")
    for old in set(folder.glob("*.rst")) - {folder / f"{name}.rst" for name in pages}:
        old.unlink()


def _commands(examples: dict[str, Sample]) -> list[str]:
    """Returns the page of the commands: the help of each, and a sample that runs it from Python."""
    top = parser()
    chosen = next(action for action in top._actions if isinstance(action.choices, dict))
    lines = [
        *_title("Commands", "="),
        "The help of each command of ``netcl``, and a call of it from Python: ``main`` is ``netcl.trainer.cli.main``.",
        "",
    ]
    for name, command in sorted((chosen.choices or {}).items()):
        text = (_help_of_extension(name) if name in extensions.commands() else command.format_help()).splitlines()
        lines += [*_title(f"netcl {name}", "-"), ".. code-block:: text", "", *_indented(text), ""]
        if f"netcl {name}" in examples:
            lines += _sample(examples[f"netcl {name}"])
    return lines


def _help_of_extension(name: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        extensions.run(name, ["--help"])
    return printed.getvalue()


def keep(file: Path, text: str) -> None:
    """Writes a file if its text is another one than before."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def _title(text: str, mark: str) -> list[str]:
    return [text, mark * len(text), ""]


def _role(distribution: str) -> str:
    about = importlib.import_module(f"netcl.{distribution.removeprefix('netcl-')}").__doc__ or ""
    return "\n".join(document(about)[:1])


def _sections(topic: Topic, chosen: list[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    """Yields the headings of a page in its order, each with its entries: classes first, then by name."""
    for heading in topic.sections:
        group = [entry for entry in chosen if section_of(entry)[1] == heading]
        if group:
            yield heading, sorted(group, key=lambda one: (_KINDS.index(one.kind), one.name.split(".")[-1].lower()))


def _table(group: list[Entry]) -> list[str]:
    listed = [entry for entry in group if entry.kind not in ("data", "module")]
    if len(listed) < 2:
        return []
    return [".. autosummary::", "   :nosignatures:", "", *(f"   ~{entry.name}" for entry in listed), ""]


def _indented(lines: list[str], depth: int = 3) -> list[str]:
    return [(" " * depth + part).rstrip() for line in lines for part in line.split("\n")]


def _entry(entry: Entry, public: set[int], sample: Sample | None) -> list[str]:
    value = entry.value
    if entry.kind == "module":
        return [
            f".. py:module:: {entry.name}",
            "",
            ".. py:currentmodule:: None",
            "",
            f"**{entry.name}**: " + "\n".join(document(value.__doc__)[:1]),
            "",
        ]
    if entry.kind == "data":
        lines = [f".. py:data:: {name}" for name in entry.names[:1]]
        lines += [f"             {name}" for name in entry.names[1:]]
        text = repr(value)
        if " at 0x" not in text:
            lines += [f"   :value: {text}" if "\n" not in text and len(text) < 80 else ""]
        doc = document(type(value).__doc__) if type(value).__module__.startswith("netcl.") else []
        return [*lines, "", *_indented(doc[:1]), ""]
    directive = f".. py:{entry.kind}:: "
    shown = [name + (parameters(_named(name)) or "(...)") for name in entry.names]
    lines = [directive + shown[0], *(" " * len(directive) + other for other in shown[1:]), ""]
    body = []
    if inspect.isclass(value):
        bases = [base for base in value.__mro__[1:] if id(base) in public][:1]
        body += [
            f"Base: ``{base.__module__.split('.')[0]}.{base.__module__.split('.')[1]}.{base.__name__}``"
            for base in bases
        ]
        body += [""] if bases else []
    body += document(_docstring(entry))
    if sample is not None:
        body += _sample(sample)
    if inspect.isclass(value) and entry.kind == "class":
        body += _members(value, public)
    return [*lines, *_indented(body), ""]


def _named(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def _docstring(entry: Entry) -> str:
    text = entry.value.__doc__ or ""
    if entry.kind == "class" and text.startswith(f"{entry.value.__name__}("):  # made by dataclass
        return ""
    return text


def _sample(sample: Sample) -> list[str]:
    lines = [
        ".. code-block:: python",
        "",
        *_indented((sample.code if sample.name.startswith("netcl ") else sample.shown).splitlines()),
        "",
    ]
    if sample.output:
        printed = sample.output.splitlines()
        printed = [*printed[:_PRINTED], "..."] if len(printed) > _PRINTED else printed
        lines += [".. code-block:: text", "   :class: output", "", *_indented(printed), ""]
    return lines


def _members(owner: type, public: set[int]) -> list[str]:
    line = owner.__mro__
    known = next((index for index, base in enumerate(line) if index and id(base) in public), len(line))
    own = [base for base in line[:known] if base.__module__.startswith("netcl.")]
    groups: dict[Any, list[str]] = {}
    for name in sorted({name for base in own for name in vars(base)}):
        if name.startswith("_") and name not in _SHOWN:
            continue
        raw = inspect.getattr_static(owner, name)
        kind = _member_kind(raw)
        if kind == "":
            continue
        key = id(getattr(raw, "__func__", raw)) if kind == "method" else name
        groups.setdefault(key, []).append(name)
    lines: list[str] = []
    for names in groups.values():
        lines += _member(owner, names)
    return lines


def _member_kind(raw: Any) -> str:
    if isinstance(raw, (staticmethod, classmethod)) or inspect.isroutine(raw) or inspect.isfunction(raw):
        return "method" if getattr(getattr(raw, "__func__", raw), "__doc__", None) or inspect.isfunction(raw) else ""
    if isinstance(raw, property) or inspect.isdatadescriptor(raw):
        return "property"
    if callable(raw) and not inspect.isclass(raw):
        return "method"
    return ""


def _member(owner: type, names: list[str]) -> list[str]:
    raw = inspect.getattr_static(owner, names[0])
    kind = _member_kind(raw)
    directive = f".. py:{kind}:: "
    if kind == "property":
        doc = getattr(raw, "__doc__", None)
        if not doc or doc.startswith("The type of the None singleton"):
            return []
        return [directive + names[0], "", *_indented(document(doc)), ""]
    bound = isinstance(raw, (staticmethod, classmethod))
    value = getattr(owner, names[0], None)
    if value is None:  # a name of PyTorch's that is absent and says so when it is read
        return []
    text = parameters(value, method=not bound) or "(...)"
    lines = [directive + names[0] + text, *(" " * len(directive) + name + text for name in names[1:])]
    if bound:
        lines.append(f"   :{'classmethod' if isinstance(raw, classmethod) else 'staticmethod'}:")
    return [*lines, "", *_indented(document(value.__doc__)), ""]


if __name__ == "__main__":
    write(Path(sys.argv[1]))
