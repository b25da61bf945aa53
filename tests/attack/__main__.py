"""Runs the attacks, each in a process of its own, with a seed; prints counts and the smallest reproducers.

    python tests/attack --minutes 10 --seed 7
    python tests/attack --only formats --seconds 20
    python tests/attack --only formats.csv --seed 7 --case 1234
    python tests/attack --only prediction.pocl --seed 7 --cases 500 --first 1500

Exits with 1 if a promise was broken. The files of failures are kept in ``--keep`` (default .nox/attack). Each attack
runs in an empty folder; one that leaves a file in the repository fails.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

from registry import ATTACKS, Attack, Run

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Seconds that a process may take to import, and to end after its deadline, before it counts as hanging.
GRACE = 120.0
# The time of an attack with a number of cases.
DAY = 86400.0
# Seconds of an attack that needs no least time.
LEAST = 0.2


def load_attacks() -> None:
    """Imports every module in the folders of tests/attack, which registers its attacks."""
    for path in sorted(HERE.glob("*/*.py")):
        importlib.import_module(f"{path.parent.name}.{path.stem}")


def selected(patterns: list[str]) -> list[Attack]:
    """Returns the attacks with a name that begins with one of ``patterns``; all without patterns."""
    return [one for name, one in sorted(ATTACKS.items()) if not patterns or name.startswith(tuple(patterns))]


def shares(ready: list[Attack], total: float) -> dict[str, float]:
    """Returns the seconds of each attack: the least that it needs, attacks that need little first, and its weight's
    part of the rest. Other attacks are left out.
    """
    found: dict[str, float] = {}
    left = total
    for one in sorted(ready, key=lambda one: (one.least, one.name)):
        least = max(one.least, LEAST)
        if least <= left:
            found[one.name] = least
            left -= least
    weights = sum(one.weight for one in ready if one.name in found)
    return {one.name: found[one.name] + left * one.weight / weights for one in ready if one.name in found}


def run_here(one: Attack, options: argparse.Namespace) -> None:
    """Runs an attack in this process and prints its report as the last line."""
    with tempfile.TemporaryDirectory(prefix="attack-") as folder, open(options.journal, "w") as journal:
        run = Run(
            one.name,
            options.seed,
            time.monotonic() + options.seconds,
            Path(folder),
            Path(options.keep),
            options.case,
            options.first,
            options.cases,
            journal=journal,
        )
        one.function(run)
    print(f"\n{run.report()}")


def run_apart(one: Attack, seconds: float, options: argparse.Namespace) -> dict[str, Any]:
    """Runs an attack in a process of its own; a crash or a hang becomes a failure of its report."""
    with tempfile.TemporaryDirectory(prefix="attack-journal-") as folder:
        journal = Path(folder) / "case"
        command = [sys.executable, str(HERE), "--child", one.name, "--seed", str(options.seed)]
        keep, here = str(Path(options.keep).resolve()), Path(folder) / "a" / "b" / "c"  # "../.." leads to "a"
        here.mkdir(parents=True)
        command += ["--seconds", str(seconds), "--keep", keep, "--journal", str(journal)]
        command += ["--first", str(options.first)] + (["--cases", str(options.cases)] if options.cases else [])
        if options.case is not None:
            command += ["--case", str(options.case)]
        environment = {**os.environ, **one.environment}
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=seconds + GRACE,
                check=False,
                env=environment,
                cwd=here,
            )
            output, problem = done.stdout, f"the process ended with {done.returncode}" if done.returncode else ""
            errors = done.stderr
        except subprocess.TimeoutExpired as error:
            output, problem = "", f"the process did not end within {GRACE:.0f} s of its deadline"
            errors = (error.stderr or b"").decode(errors="replace")
        last = output.strip().rsplit("\n", 1)[-1]
        if not problem and last.startswith("{"):
            return cast("dict[str, Any]", json.loads(last))
        case, *report_before = journal.read_text().splitlines() if journal.exists() else ["?"]
    again = f"python tests/attack --only {one.name} --seed {options.seed} --case {case}"
    tail = "\n".join(errors.strip().splitlines()[-12:])
    failure = {"symptom": problem or "no report", "case": case, "reproducer": f"{again}\n{tail}", "file": ""}
    report = json.loads(report_before[0]) if report_before else {"counts": {}, "largest": {}, "failures": []}
    report["counts"]["failures"] = report["counts"].get("failures", 0) + 1
    report["failures"].append(failure)
    return report


def in_repository() -> set[str]:
    """Returns the files and folders of the repository, without what tools keep there."""
    found: set[str] = set()
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
        found.update(os.path.relpath(os.path.join(folder, name), ROOT) for name in (*folders, *files))
    return found


def main() -> int:
    """Runs the attacks that the command line selects, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="attack", description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=0.0, help="time for all attacks together (default 20)")
    parser.add_argument("--seed", type=int, default=None, help="default: a random one, which is printed")
    parser.add_argument("--only", action="append", default=[], help="the beginning of a name; may be repeated")
    parser.add_argument("--case", type=int, default=None, help="repeat this case of the attack of --only")
    parser.add_argument("--cases", type=int, default=None, help="run as many cases of --only, however long they take")
    parser.add_argument("--first", type=int, default=0, help="begin with this case")
    parser.add_argument("--keep", default=str(ROOT / ".nox" / "attack"))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--journal", help=argparse.SUPPRESS)
    options = parser.parse_args()
    load_attacks()
    if options.child:
        run_here(ATTACKS[options.child], options)
        return 0
    chosen = selected(options.only)
    if options.list or not chosen:
        print("\n".join(ATTACKS))
        return 0 if options.list else 2
    options.seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    total = options.minutes * 60 + options.seconds or (20.0 if options.cases is None else DAY)
    ready = [one for one in chosen if not one.needs()]
    seconds = shares(ready, total)
    if options.only or options.case is not None:  # what is named is not left out
        share = total / sum(one.weight for one in ready) if ready else 0.0
        seconds = {one.name: share * one.weight for one in ready}
    print(f"seed {options.seed}, {total:.0f} s for {len(ready)} attacks")
    failed = 0
    largest: dict[str, tuple[float, str]] = {}
    before = in_repository()
    for one in chosen:
        if one.needs():
            print(f"{one.name:28} left out: needs {one.needs()}")
        elif one.name not in seconds:
            print(f"{one.name:28} left out: needs {one.least:g} s")
        else:
            started = time.monotonic()
            report = run_apart(one, seconds[one.name], options)
            counts = ", ".join(f"{number} {what}" for what, number in sorted(report["counts"].items()))
            most = "".join(f", at most {value:.2f} {unit}" for unit, value in sorted(report["largest"].items()))
            print(f"{one.name:28} {time.monotonic() - started:6.1f} s  {counts}{most}", flush=True)
            for unit, value in report["largest"].items():
                largest[unit] = max(largest.get(unit, (value, one.name)), (value, one.name))
            new = sorted(in_repository() - before)
            if new:
                before.update(new)
                text = f"{len(new)} new files in the repository: {new[:5]}"
                failure = {"symptom": text, "case": "?", "reproducer": one.name, "file": ""}
                report["failures"].append(failure)
            for failure in report["failures"]:
                failed += 1
                print(f"  {failure['symptom']} (case {failure['case']})\n    {failure['reproducer']}")
                if failure["file"]:
                    print(f"    file: {failure['file']}")
    for unit, (value, name) in sorted(largest.items()):
        print(f"the most of all: {value:.2f} {unit} ({name})")
    print(f"{failed} broken promises" if failed else "no promise was broken")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
