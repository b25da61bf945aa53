"""Durations are measured by a clock that is never set."""

from __future__ import annotations

import re
from pathlib import Path

from monorepo import load_packages

# The age of a file that another process wrote: its stamp is of the system's clock.
# The stamp of a row that MLflow shows.
# The dates in answers of a server.
ALLOWED = {
    "netcl/core/process/cache_files.py",
    "netcl/trainer/loggers.py",
    "netcl/llm/server/app.py",
    "netcl/llm/server/answers.py",
}


def test_the_clock_of_the_system_measures_no_duration(root: Path) -> None:
    sources = [path for package in load_packages(root).values() for path in package.modules()]
    assert len(sources) > 300
    users = {
        str(path.relative_to(path.parents[len(path.parts) - path.parts.index("src") - 2]))
        for path in sources
        if re.search(r"\btime\.time(_ns)?\b|from time import [^\n]*\btime\b", path.read_text(encoding="utf-8"))
    }
    assert users == ALLOWED
