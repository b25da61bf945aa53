"""Runs mypy (strict) and pyright over the installed packages and checks/types; public names need known types."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jedi
from monorepo import OWNED, ROOT, tomllib


def run(*command: str) -> tuple[int, str]:
    """Returns the exit status of a command and what it wrote."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def check_strictly() -> tuple[int, str]:
    """Returns mypy over the installed namespace, with the settings of pyproject.toml."""
    return run("mypy", "--strict", "--config-file", "pyproject.toml", "-p", "netcl")


def check_sources() -> tuple[int, str]:
    """Returns pyright over a copy of the merged `netcl/`; it treats installed files as third-party code."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pyright"]
    installed = Path(sysconfig.get_path("purelib")) / "netcl"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(installed, Path(folder) / "netcl", ignore=shutil.ignore_patterns("__pycache__"))
        settings = {**options, "include": ["netcl"], "exclude": []}
        (Path(folder) / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
        return run("pyright", "--project", folder, "--pythonpath", sys.executable)


def check_uses() -> list[tuple[int, str]]:
    """Returns mypy and pyright over checks/types: types that users see, and calls that must be errors."""
    options = {"include": ["."], "typeCheckingMode": "standard", "reportUnnecessaryTypeIgnoreComment": "error"}
    with tempfile.TemporaryDirectory() as folder:
        for file in sorted((ROOT / "checks" / "types").glob("*.py")):
            shutil.copy(file, folder)
        settings = {**options, "reportMissingModuleSource": False}
        (Path(folder) / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
        return [
            run("pyright", "--project", folder, "--pythonpath", sys.executable),
            run("mypy", "--strict", "--config-file", "pyproject.toml", "--cache-dir", f"{folder}/cache", folder),
        ]


def check_downstream() -> list[tuple[int, str]]:
    """Returns mypy and pyright, both strict, over examples/downstream, which uses netcl-core without a cast or an
    ignore.
    """
    project = ROOT / "examples" / "downstream"
    silencing = re.compile(r"\bcast\(|type: ignore|pyright:")
    hidden = [file for file in project.rglob("*.py") if silencing.search(file.read_text(encoding="utf-8"))]
    results = [(1, f"{file} silences a type checker\n") for file in hidden]
    with tempfile.TemporaryDirectory() as folder:
        for part in ("src", "tests"):
            shutil.copytree(project / part, Path(folder) / part, ignore=shutil.ignore_patterns("__pycache__"))
        settings = {"include": ["src", "tests"], "typeCheckingMode": "strict", "extraPaths": ["src"]}
        (Path(folder) / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
        sources = [f"{folder}/src/heatplate", *map(str, Path(folder, "tests").glob("*.py"))]
        results.append(run("pyright", "--project", folder, "--pythonpath", sys.executable))
        options = ("--strict", "--config-file", "", "--cache-dir", f"{folder}/cache")
        results.append(run("env", f"MYPYPATH={folder}/src", "mypy", *options, *sources))
    return results


def check_completions() -> tuple[int, str]:
    """Returns jedi, which notebooks complete with: signatures of ops, results of modules."""
    lines = ["import netcl as nc", "from netcl import nn", "y = nn.Linear(2, 3)(nc.zeros(4, 2))"]
    wrong = ""
    for line, wanted in (("y.softm", "softmax"), ("nc.max(y, dim=1).val", "values"), ("nc.relu(y).flat", "flatten")):
        names = [
            signature.name for signature in jedi.Script("\n".join([*lines, line])).complete(len(lines) + 1, len(line))
        ]
        wrong += "" if wanted in names else f"jedi completes {line} with {names}, not with {wanted}\n"
    signatures = jedi.Script("\n".join([*lines, "nc.cumsum("])).get_signatures(len(lines) + 1, len("nc.cumsum("))
    if not any([p.name for p in signature.params][:2] == ["x", "axis"] for signature in signatures):
        wrong += f"jedi shows {[signature.to_string() for signature in signatures]} for nc.cumsum\n"
    return int(bool(wrong)), wrong


def check_completeness(least: float) -> tuple[int, str]:
    """True if pyright knows the types of fewer than ``least`` per cent of the public names of a subpackage."""
    _, printed = run("pyright", "--verifytypes", "netcl", "--ignoreexternal", "--outputjson")
    report = json.loads(printed[printed.index("{") :])["typeCompleteness"]
    unknown: dict[str, list[str]] = {name: [] for names in OWNED.values() for name in names} | {"": []}
    count = dict.fromkeys(unknown, 0)
    for symbol in report["symbols"]:
        if symbol["isExported"] and not symbol["name"].endswith((".__getattr__", ".__dir__")):
            part = (*symbol["name"].split("."), "")[1]
            part = part if part in unknown else ""
            count[part] += 1
            if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]:
                unknown[part].append(symbol["name"])
    failed, said = 0, ""
    for part, names in unknown.items():
        share = 100.0 * (1 - len(names) / count[part]) if count[part] else 0.0
        said += f"{f'netcl.{part}'.rstrip('.')}: {share:.1f} % of {count[part]} public names have known types\n"
        if share < least:
            failed = 1
            said += "\n  ".join([f"at least {least:g} % are asked for; unknown or partly unknown:", *names]) + "\n"
    return failed, said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-least", type=float, default=97.0, help="per cent of the public names of each subpackage")
    least = parser.parse_args().at_least
    # mypy takes half a minute on one core, and so does pyright: its first run installs it.
    with ThreadPoolExecutor() as pool:
        strict = pool.submit(check_strictly)
        results = [
            check_sources(),
            check_completeness(least),
            *check_uses(),
            *check_downstream(),
            check_completions(),
            strict.result(),
        ]
    print(*(said for _, said in results), sep="", end="")
    return int(any(status for status, _ in results))


if __name__ == "__main__":
    raise SystemExit(main())
