"""Prints how many public names have an entry in the built reference, and how many ops, classes and commands a sample.

    python tools/docs_site/coverage.py site

Entries are read from the inventory that Sphinx wrote, samples from docs/samples.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs_site.names import entries, every_name
from docs_site.samples import samples


def documented(site: Path) -> set[str]:
    """Returns the names with an entry, from ``objects.inv``."""
    data = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return {line.rsplit(" ", 4)[0] for line in zlib.decompress(data).decode().splitlines() if " py:" in line}


def commands() -> list[str]:
    """Returns the names of the commands of ``netcl``, with the commands of extensions."""
    from netcl.trainer import extensions
    from netcl.trainer.cli.help_texts import EXAMPLES

    return sorted({*EXAMPLES, *extensions.commands()})


def wanted() -> Iterator[tuple[str, list[str]]]:
    """Yields (kind, names) of everything that a sample is asked for."""

    import netcl.autograd  # noqa: F401  (adds its rows)
    from netcl.core.ops_table.dispatch import TABLE

    own = ("_", "sample_", "page_", "tutorial_")  # rows that are internal, or that a sample of the pages adds
    yield "op rows", sorted(name for name in TABLE if not name.startswith(own))
    yield "classes", sorted(entry.name for entry in entries() if entry.kind == "class")
    yield "commands", [f"netcl {name}" for name in commands()]


def main(arguments: Sequence[str]) -> int:
    """Prints the percentages and what is missing; returns 1 if something is missing, else 0."""
    names = list(dict.fromkeys(every_name()))
    there = documented(Path(arguments[0]))
    missing = [name for name in names if name not in there]
    complete = _say("public names with an entry", names, missing)
    listed = samples()
    for kind, asked in wanted():
        complete &= _say(f"{kind} with a sample that runs", asked, [name for name in asked if name not in listed])
    return int(not complete)


def _say(text: str, asked: list[str], missing: list[str]) -> bool:
    share = 100 * (len(asked) - len(missing)) / max(len(asked), 1)
    print(f"{share:6.1f} % of {len(asked)} {text}")
    for name in missing[:20]:
        print(f"         missing: {name}")
    return not missing


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
