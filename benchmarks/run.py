"""Runs the benchmarks, each in a process of its own, and keeps what they print, their numbers, and pictures of these.

``python benchmarks/run.py [--only ops,training] [--devices intel,pocl] [--quick] [--out benchmarks/results]``. For each
script NAME.txt; NAME.json and NAME.svg for scripts that time rows of contestants (the pictures need matplotlib). Exits
with 1 where a script did, which some do for a target that is missed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from measure import draw, handles

HERE = Path(__file__).resolve().parent
# Options for a first look in seconds instead of minutes; scripts with a JSON file take --json.
QUICK = {
    "basics": ["--runs", "5"],
    "core": ["--only", "op,pool"],
    "ops": ["--seconds", "0.2"],
    "contractions": ["--seconds", "0.1"],
    "training": ["--seconds", "0.5", "--only", "mlp,cnn"],
    "inference": ["--seconds", "0.5", "--only", "mlp 1,cnn"],
    "autograd": ["--only", "launches,replay,ops", "--rounds", "3"],
    "jit": ["--elements", "65536", "--rounds", "3"],
    "optim": ["--rounds", "3"],
    "steps": ["--only", "digits"],
    "programs": ["--only", "vae,gcn,facade", "--turns", "2"],
}
NUMBERS = ("basics", "core", "ops", "contractions", "training", "inference", "programs")


def run(name: str, arguments: list[str], out: Path) -> int:
    """Run one script, show what it prints, and keep that under ``out``."""
    files = ["--json", str(out / f"{name}.json")] if name in NUMBERS else []
    command = [sys.executable, str(HERE / f"{name}.py"), *arguments, *files]
    print(f"\n== {name} {' '.join(arguments)}".rstrip(), flush=True)
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        (out / f"{name}.txt").open("w") as file,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            file.write(line)
    if files and Path(files[1]).exists() and find_spec("matplotlib"):
        draw(Path(files[1]), out / f"{name}.svg")
    return process.returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(QUICK), help="scripts, separated by commas")
    parser.add_argument("--devices", help="selectors, separated by commas; all OpenCL devices when left out")
    parser.add_argument("--quick", action="store_true", help="a first look, not for comparisons")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="a folder for the files")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = [handle.selector for handle in handles(None) if handle.backend == "cl"]
    devices = ["--devices", options.devices or ",".join(found)]
    chosen = options.only.split(",")
    if unknown := [name for name in chosen if name not in QUICK]:
        parser.error(f"no script {', '.join(unknown)}; there are {', '.join(QUICK)}")
    failed = [name for name in chosen if run(name, [*devices, *(QUICK[name] if options.quick else [])], options.out)]
    if failed:
        print(f"\nmissed a target or failed: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
