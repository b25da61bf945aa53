"""A fault at each call to the system while a file is saved: for every format, kind and number of a call, and error.

After each the file is the old one or the new one, whole, the error says which, and nothing else is left.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from registry import Run, attack

from saving.shims import LibraryShim, PythonShim, compiled

ERRORS = {
    "open": (errno.ENOSPC, errno.EMFILE, errno.EACCES, errno.EIO),
    "write": (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG),
    "sync": (errno.EIO, errno.ENOSPC, errno.EDQUOT),
    "rename": (errno.EIO, errno.EACCES, errno.EXDEV),
    "unlink": (errno.EIO, errno.EACCES),
    "chmod": (errno.EPERM, errno.EIO),
    "lock": (errno.ENOLCK, errno.EIO, errno.EWOULDBLOCK),
    "dup": (errno.EMFILE,),
    "space": (errno.EIO,),
    "list": (errno.EACCES, errno.EIO),
}
# Leftovers of a fault that hits their own removal, which the next save must remove.
LEAVES = ("unlink", "list", "lock")
MOST = 60  # calls of one kind in one save


def plan(kinds: tuple[str, ...], forms: list[str]) -> Iterator[tuple[str, str, int, int, str, bool]]:
    """Yields (format, kind, number, error, action, after) so that each prefix covers all formats and kinds."""
    for at in range(1, MOST):
        for kind, form in itertools.product(kinds, forms):
            for error in ERRORS[kind]:
                yield form, kind, at, error, "fail", False
            if kind in ("write", "rename", "sync", "open"):
                yield form, kind, at, errno.EIO, "fail", True
            if kind == "write":
                yield form, kind, at, 0, "short", False


def disturbed(shim: Any, folder: Path, case: tuple[str, str, int, int, str, bool]) -> tuple[str, bool]:
    """Saves under one fault; returns the broken promise, or an empty text, and True if the fault was met."""
    from netcl.io import CheckpointError
    from saving.forms import SAVERS, model, value_of

    form, kind, at, error, action, after = case
    path = folder / "m"
    SAVERS[form](model(1.0), path)
    old, layer = path.read_bytes(), model(2.0)
    opened = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    raised: BaseException | None = None
    shim.arm(kind, at, error, action, after=after)
    try:
        SAVERS[form](layer, path)
    except BaseException as caught:
        raised = caught
    calls, hits = shim.disarm()
    if not hits:
        return "", calls >= at
    if raised is not None and not isinstance(raised, CheckpointError):
        return f"{type(raised).__name__} in place of CheckpointError at {kind}: {raised}", True
    value = 1.0 if path.read_bytes() == old else value_of(form, path)
    replaced = raised is None or raised.replaced
    if value != (2.0 if replaced else 1.0):
        return f"a fault at {kind}: the file is {'old' if value == 1.0 else 'new'}, and the saver said {raised!r}", True
    if raised is not None and ("untouched" in str(raised)) is replaced:
        return f"a fault at {kind}: an untrue message: {raised}", True
    left = sorted(found.name for found in folder.iterdir() if found.name != "m")
    if left and kind not in LEAVES and not (kind == "open" and after):
        return f"a fault at {kind} leaves a temporary file", True
    if opened and len(os.listdir("/proc/self/fd")) != opened:
        return f"a fault at {kind} leaves an open descriptor", True
    SAVERS[form](layer, path)
    left = sorted(found.name for found in folder.iterdir() if found.name != "m")
    return f"after a fault at {kind} the next save leaves {left}" if left else "", True


def shim_here() -> Any:
    """Returns the preloaded shim, or Python's."""
    try:
        return LibraryShim()
    except AttributeError:
        return PythonShim()


def run_child(run: Run, script: str, *arguments: str) -> None:
    """Runs a script in a process with the shim, and passes its report on: counts, and symptoms with their cases."""
    library = compiled(run.folder)
    place = Path(tempfile.mkdtemp(dir=run.folder))
    seconds = max(run.deadline - time.monotonic(), 1.0)
    command = [sys.executable, script, str(place), str(seconds), str(run.seed), *arguments]
    environment = {
        **os.environ,
        "NETCL_DEVICE": "cpu",
        "NETCL_DETERMINISTIC": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    if library is not None:
        environment["LD_PRELOAD"] = str(library)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        run.fail(f"the process under faults ended with {done.returncode}", reproducer=done.stderr[-2000:])
        return
    report = json.loads(done.stdout.splitlines()[-1])
    for what, number in report["counts"].items():
        run.count(what, number)
    for symptom, case in report["failures"].items():
        run.fail(symptom, reproducer=case)


def child(folder: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Runs the plan from a place that the seed chooses, in a process with the shim."""
    from saving.forms import SAVERS, model

    shim = shim_here()
    for form in SAVERS:  # what is imported at first use
        SAVERS[form](model(0.0), folder / "m")
    counts = {"faults": 0, "cases": 0}
    failures: dict[str, str] = {}
    whole = list(plan(shim.kinds, list(SAVERS)))
    # In order, so that a short run has the first calls; a kind without further calls is left out.
    ended: set[tuple[str, str]] = set()
    deadline = time.monotonic() + seconds
    start = seed % len(whole) if seconds < 60 else 0
    for case in whole[start:] + whole[:start]:
        if time.monotonic() > deadline:
            break
        if start == 0 and case[:2] in ended:
            continue
        symptom, met = disturbed(shim, folder, case)
        counts["cases"] += 1
        counts["faults"] += met
        if not met:
            ended.add(case[:2])
        if symptom:
            failures.setdefault(symptom, repr(case))
    counts[f"with the {type(shim).__name__}"] = counts["cases"]
    return {"counts": counts, "failures": failures}


@attack("saving.faults", weight=2.0, least=1.0, needs=lambda: "" if os.name == "posix" else "POSIX")
def faults(run: Run) -> None:
    """Runs the plan of faults once, as far as the time allows."""
    run.case = 0
    run_child(run, __file__)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(child(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))))
