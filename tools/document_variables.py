"""Writes docs/reference/variables.md from `netcl.core.config.VARIABLES`."""

from __future__ import annotations

from monorepo import ROOT

from netcl.core import config

HEAD = """# Environment variables

Each is read when it is used; `netcl.core.config.override(NAME=value)` replaces it for the time of a `with` block. False
is written as an empty value, `0`, `false`, `no` or `off`. A value that does not fit raises ConfigError.

| Variable | Type | Default | Meaning |
|-|-|-|-|
"""


def page() -> str:
    """Returns the reference page as text."""
    rows = []
    for variable in config.VARIABLES.values():
        default = "unset" if variable.default is None else str(variable.default) or "empty"
        rows.append(f"| `{variable.environment}` | {variable.type} | {default} | {variable.meaning} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    (ROOT / "docs/reference/variables.md").write_text(page(), encoding="utf-8")
