"""Runs import-linter over the merged namespace: the layers are the contracts in pyproject.toml, [tool.importlinter].

The source folders share the package netcl, and import-linter looks for a package in one folder: so it is given a merged
copy. Nothing of netcl is imported.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from monorepo import ROOT, load_packages


def merge(root: Path, target: Path) -> None:
    """Copies the sources of every package under ``root`` into ``target``/netcl."""
    for package in load_packages(root).values():
        for path in package.modules():
            copy = target / "netcl" / path.relative_to(package.source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def check(root: Path = ROOT) -> tuple[int, str]:
    """Returns the exit status of import-linter for the sources under ``root``, and what it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        merge(root, Path(folder))
        script = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()"
        command = (sys.executable, "-c", script, "--config", str(root / "pyproject.toml"), "--no-cache")
        environment = {**os.environ, "PYTHONPATH": folder}
        pipe = subprocess.PIPE
        done = subprocess.run(
            command, cwd=folder, env=environment, stdout=pipe, stderr=subprocess.STDOUT, text=True, check=False
        )
        return done.returncode, done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=ROOT)
    status, text = check(parser.parse_args().root)
    print(text, end="")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
