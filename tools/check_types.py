"""Runs pyright over the installed packages and demands that most public names of netcl.core have known types."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from monorepo import ROOT, tomllib


def check_sources(installed: Path) -> int:
    """Run pyright over a copy of the merged `netcl/`; installed files themselves count as somebody else's to it."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pyright"]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(installed, Path(folder) / "netcl", ignore=shutil.ignore_patterns("__pycache__"))
        settings = {**options, "include": ["netcl"], "exclude": []}
        (Path(folder) / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
        command = ["pyright", "--project", folder, "--pythonpath", sys.executable]
        return subprocess.run(command, check=False).returncode


def completeness(package: str) -> tuple[float, list[str]]:
    """The share in per cent of `package`'s public names whose types pyright knows, and the names it does not."""
    command = ["pyright", "--verifytypes", package, "--ignoreexternal", "--outputjson", "--pythonpath", sys.executable]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(run.stdout)["typeCompleteness"]
    unknown = [s["name"] for s in report["symbols"] if s["isExported"] and not s["isTypeKnown"]]
    return 100.0 * report["completenessScore"], unknown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-least", type=float, default=95.0, help="per cent of netcl.core's names")
    least = parser.parse_args().at_least
    failed = check_sources(Path(sysconfig.get_path("purelib")) / "netcl")
    share, unknown = completeness("netcl.core")
    print(f"netcl.core: {share:.1f} % of the public names have known types")
    if share < least:
        print(f"at least {least:g} % are asked for; unknown or partly unknown:", *unknown, sep="\n  ")
    return int(bool(failed) or share < least)


if __name__ == "__main__":
    raise SystemExit(main())
