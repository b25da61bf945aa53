"""Finds files under `netcl/` that two installed distributions own: pip allows that without a message."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions

OURS = tuple(f"netcl-{part}" for part in ("core", "autograd", "nn", "optim", "data", "distributed", "trainer"))


def find_conflicts(installed: Iterable[Distribution] | None = None) -> list[str]:
    """Returns one message per group of distributions that own the same file under `netcl/`; [] if there is none.

    `installed` defaults to everything this interpreter can import. A message names the distributions, one of the files,
    and the commands that repair it: uninstalling one owner deletes the other's files too, so ours are installed again.
    """
    owners: dict[str, dict[str, str]] = defaultdict(dict)
    ours = set(OURS)
    for distribution in distributions() if installed is None else installed:
        name = _canonical(distribution.metadata["Name"])
        if any(line.startswith("netcl-core") for line in distribution.requires or ()):  # an extension
            ours.add(name)
        for file in distribution.files or ():
            if file.parts[0] == "netcl" and file.suffix != ".pyc":
                owners[str(distribution.locate_file(file))][name] = distribution.version
    groups: dict[tuple[tuple[str, str], ...], list[str]] = defaultdict(list)
    for file_path, names in owners.items():
        if len(names) > 1:
            groups[tuple(sorted(names.items()))].append(file_path)
    return [_message(dict(group), sorted(files), ours) for group, files in sorted(groups.items())]


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _message(versions: dict[str, str], files: list[str], ours: set[str]) -> str:
    strangers = [name for name in versions if name not in ours]
    kept = [name for name in versions if name in ours]
    remove = strangers or kept[1:]
    who = " and ".join(f"{name} {version}" for name, version in versions.items())
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    again = " ".join(kept if strangers else kept[:1])
    cure = f"pip uninstall {' '.join(remove)}"
    if again:
        cure += f", then pip install --force-reinstall --no-deps {again}"
    return f"{who} both own {files[0]}{more}; what runs is whichever was installed last. Cure: {cure}"


def main() -> int:
    """Prints every conflict; returns 1 if there is one."""
    conflicts = find_conflicts()
    for message in conflicts:
        print(message, file=sys.stderr)
    return int(bool(conflicts))


if __name__ == "__main__":
    raise SystemExit(main())
