"""Checks the installed netcl-core; see ``python -m netcl_conformance --help``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from netcl_conformance.contract import contract
from netcl_conformance.run import check

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Prints a report; returns 1 if there is a fault, 2 if the core cannot be checked."""
    parser = argparse.ArgumentParser(prog="netcl-conformance", description="Checks the netcl-core that is installed.")
    parser.add_argument("--level", action="append", choices=list(contract().levels), help="a level; may be repeated")
    parser.add_argument("--device", help="a device selector; the default is the active device")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also writes the report to a file")
    parser.add_argument("--layers", type=Path, metavar="FOLDER", help="then runs the suites FOLDER/netcl-*/tests")
    given = parser.parse_args(arguments)
    try:
        report = check(given.level, given.device)
    except ImportError as error:
        print(error, file=sys.stderr)
        return 2
    if given.layers is not None:
        from netcl_conformance.layers import check_layers

        check_layers(report, given.layers, given.device)
    print(report)
    if given.json is not None:
        given.json.write_text(report.to_json(), encoding="utf-8")
    return 0 if report else 1


if __name__ == "__main__":
    sys.exit(main())
