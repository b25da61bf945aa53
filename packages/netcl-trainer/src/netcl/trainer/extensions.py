"""Commands of other distributions: each is an entry point of the group ``netcl.commands``.

Its name is the command's, its object a function that takes the list of arguments and returns the exit code. The
distribution's summary is the help of the command.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

GROUP = "netcl.commands"


@cache
def commands() -> dict[str, EntryPoint]:
    """Returns the entry points by the names of the commands; the first distribution with a name has it."""
    entries: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        entries.setdefault(entry.name, entry)
    return entries


def distributions() -> list[str]:
    """Returns the names of the distributions that add commands."""
    return sorted({entry.dist.name for entry in entry_points(group=GROUP) if entry.dist is not None})


def summary(command: str) -> str:
    """Returns the line that ``netcl --help`` shows for a command of another distribution."""
    distribution = commands()[command].dist
    return "" if distribution is None else f"{distribution.metadata['Summary']} ({distribution.name})"


def run(command: str, arguments: Iterable[str]) -> int:
    """Runs a command of another distribution and returns its exit code; its exceptions are its own."""
    return int(commands()[command].load()(list(arguments)) or 0)


def absent(command: str) -> str:
    """Returns the distribution to install for a command that is not there, else ""; netcl's front has the table."""
    table: dict[str, str] = getattr(sys.modules["netcl"], "_COMMANDS", {})
    return table.get(command, "")
