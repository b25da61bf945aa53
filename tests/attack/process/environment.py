"""Hostile environments: homes and caches that cannot be used, drivers of garbage, variables of the wrong kind.

Each case starts a process in a random environment that adds two tensors. It prints the right sum, or ends with a named
error of netcl; at most one warning, no temporary folder left, no signal.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from registry import Run, attack

SUM = """
import numpy as np
from netcl import ops
from netcl.core import Tensor
from netcl.core.device import manager
x = Tensor.from_host(manager.default().queue, np.ones(3, np.float32))
print(ops.add(x, x).to_host().tolist())
"""
RIGHT = "[2.0, 2.0, 2.0]"
NAMED = ("ConfigError", "DeviceNotFoundError", "UnsupportedError")
# Folders by name: places that exist, cannot exist, are no folders, or can be written by everyone.
PLACES = ("/proc", "/dev/null", "/dev/null/x", "/nonexistent/a/b", "FILE", "FILE/x", "OPEN", "LONG", "OWN", "")
VALUES = (
    "inf",
    "-1",
    "nan",
    "1e400",
    "",
    " ",
    "yes",
    "no",
    "9" * 400,
    "é",
    "1_0",
    "0x10",
    "off",
    "auto",
    "cpu",
    "\t1\n",
)


def place(name: str, folder: Path) -> str:
    """Returns the path that stands for a name of PLACES."""
    (folder / "file").write_text("")
    (folder / "open" / "pocl" / "kcache").mkdir(parents=True, exist_ok=True)
    for path in (folder / "open", folder / "open" / "pocl", folder / "open" / "pocl" / "kcache"):
        path.chmod(0o777)
    known = {"FILE": folder / "file", "OPEN": folder / "open", "OWN": folder / "own", "LONG": folder / ("a" * 300)}
    head, _, rest = name.partition("/")
    return str(known[head] / rest) if head in known else name


def vendors(rng: random.Random, folder: Path) -> str:
    """Returns a folder of drivers with a file of garbage."""
    shutil.rmtree(folder / "vendors", ignore_errors=True)
    (folder / "vendors").mkdir()
    entry = folder / "vendors" / "bad.icd"
    kind = rng.randrange(5)
    if kind == 0:
        os.mkfifo(entry)
    elif kind == 1:
        entry.symlink_to(rng.choice(("/dev/zero", "/nonexistent", "/", "/dev/null")))
    else:
        entry.write_bytes(rng.choice((b"\0" * 64, rng.randbytes(99), b"/" + b"a" * 9999, b"\n\n", b"/etc/passwd\n")))
    return str(folder / "vendors")


def drawn(rng: random.Random, folder: Path) -> dict[str, str]:
    """Returns changes of the environment."""
    from netcl.core.config import VARIABLES

    changes = {"NETCL_DEVICE": rng.choice(("cpu", "pocl", "intel"))}
    for name in ("HOME", "XDG_CACHE_HOME", "NETCL_CACHE_DIR", "POCL_CACHE_DIR"):
        if rng.random() < 0.3:
            changes[name] = place(rng.choice(PLACES), folder)
    if rng.random() < 0.3:
        changes[rng.choice(("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"))] = vendors(rng, folder)
    if rng.random() < 0.4:
        variable = VARIABLES[rng.choice(sorted(set(VARIABLES) - {"RENDEZVOUS", "DEVICE", "PLATFORM_FILTER", "LOG"}))]
        if variable.environment not in changes:
            changes[variable.environment] = rng.choice(VALUES)
    if rng.random() < 0.1:
        changes["PYTHONWARNINGS"] = "default"
    return changes


def judged(done: subprocess.CompletedProcess[str], changes: dict[str, str]) -> str:
    """Returns which promise a process broke, "" if none."""
    last = (done.stderr.strip().splitlines() or [""])[-1]
    if done.returncode < 0:
        return f"ended by signal {-done.returncode}"
    warnings = done.stderr.count("Warning: ")
    if done.returncode == 0:
        if done.stdout.strip() != RIGHT:
            return f"printed {done.stdout.strip()[:80]!r}"
        return f"{warnings} warnings" if warnings > 1 else ""
    named = any(name in done.stderr for name in NAMED)
    if "DeviceNotFoundError" in done.stderr and not {"OCL_ICD_VENDORS"} & set(changes):
        return f"no device: {last}"
    return "" if named else f"an error without a name: {last[:200]}"


@attack("process.environment", weight=3.0, least=6.0, needs=lambda: "" if sys.platform.startswith("linux") else "Linux")
def environment(run: Run) -> None:
    """A process runs in an untested environment."""
    drivers = installed()
    for rng in run.cases():
        changes = drawn(rng, run.folder)
        if changes["NETCL_DEVICE"] not in drivers:
            changes["NETCL_DEVICE"] = "cpu"
        temporary, here = run.folder / "tmp", run.folder / "here"
        for path in (temporary, here):  # a home of " " is a folder in the current one
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
        clean = {name: text for name, text in os.environ.items() if not name.startswith(("NETCL_", "POCL_", "OCL_"))}
        environment = {**clean, "TMPDIR": str(temporary), **changes}
        command = [sys.executable, "-c", SUM]
        try:
            done = subprocess.run(
                command, env=environment, cwd=here, capture_output=True, text=True, timeout=60, check=False
            )
            fault = judged(done, changes)
        except subprocess.TimeoutExpired:
            fault = "no end within 60 s"
        left = [path.name for path in temporary.iterdir()]
        run.count(changes["NETCL_DEVICE"])
        if fault or left:
            text = " ".join(f"{name}={value!r}" for name, value in changes.items())
            run.fail(fault or f"left {left}", reproducer=text)
    shutil.rmtree("/nonexistent", ignore_errors=True)  # root can make it


def installed() -> set[str]:
    """Returns the selectors of the drivers that are here, found in a process of its own."""
    found = {"cpu"}
    for selector in ("pocl", "intel"):
        code = f"from netcl.core import manager; manager.default({selector!r})"
        if not subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode:
            found.add(selector)
    return found
