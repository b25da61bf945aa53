"""Runs mypy (strict) and pyright over the installed packages, and demands known types of netcl.core's public names."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from monorepo import ROOT, tomllib


def run(*command: str) -> tuple[int, str]:
    """The exit status of a command and what it wrote."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def check_strictly() -> tuple[int, str]:
    """mypy over the installed namespace, with the settings of pyproject.toml."""
    return run("mypy", "--strict", "--config-file", "pyproject.toml", "-p", "netcl")


def check_sources() -> tuple[int, str]:
    """pyright over a copy of the merged `netcl/`; it treats installed files as third-party code."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pyright"]
    installed = Path(sysconfig.get_path("purelib")) / "netcl"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(installed, Path(folder) / "netcl", ignore=shutil.ignore_patterns("__pycache__"))
        settings = {**options, "include": ["netcl"], "exclude": []}
        (Path(folder) / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
        return run("pyright", "--project", folder, "--pythonpath", sys.executable)


def check_completeness(package: str, least: float) -> tuple[int, str]:
    """True if pyright knows the types of at least ``least`` per cent of `package`'s public names."""
    options = ("--ignoreexternal", "--outputjson", "--pythonpath", sys.executable)
    _, printed = run("pyright", "--verifytypes", package, *options)
    report = json.loads(printed[printed.index("{") :])["typeCompleteness"]
    share = 100.0 * report["completenessScore"]
    said = f"{package}: {share:.1f} % of the public names have known types\n"
    if share < least:
        unknown = [s["name"] for s in report["symbols"] if s["isExported"] and not s["isTypeKnown"]]
        said += "\n  ".join([f"at least {least:g} % are asked for; unknown or partly unknown:", *unknown]) + "\n"
    return int(share < least), said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-least", type=float, default=95.0, help="per cent of netcl.core's names")
    least = parser.parse_args().at_least
    # mypy takes half a minute on one core, and so does pyright, whose first run installs itself.
    with ThreadPoolExecutor() as pool:
        strict = pool.submit(check_strictly)
        results = [check_sources(), check_completeness("netcl.core", least), strict.result()]
    print(*(said for _, said in results), sep="", end="")
    return int(any(status for status, _ in results))


if __name__ == "__main__":
    raise SystemExit(main())
