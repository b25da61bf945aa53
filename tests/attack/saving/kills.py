"""SIGKILL during a save, in every format: at each call to the system, and at random moments.

Afterwards the file is the old one or the new one, whole, and the next save leaves nothing but the file.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from registry import Run, attack

from saving.faults import run_child, shim_here


def saver(shim: Any, form: str, path: Path, kind: str, at: int, after: bool, ready: int) -> None:
    """The process to kill: saves until it dies at a call, or for ever."""
    from saving.forms import SAVERS, model

    models = [model(1.0), model(2.0)]
    os.write(ready, b"x")
    if kind:
        shim.arm(kind, at, 0, "kill", after=after)
        SAVERS[form](models[1], path)
        os._exit(0)
    while True:
        for one in models:
            SAVERS[form](one, path)


def killed(shim: Any, folder: Path, form: str, rng: random.Random) -> tuple[str, str, str]:
    """Kills one saver; returns the broken promise, what was done, and a name for the count."""
    from saving.forms import SAVERS, model, value_of

    path = folder / "m"
    SAVERS[form](model(1.0), path)
    kind, at, after = "", 0, rng.random() < 0.5
    if rng.random() < 0.6:
        kind = rng.choice(shim.kinds)
        at = rng.randrange(1, 12 if kind == "write" else 4)
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.close(reading)
        try:
            saver(shim, form, path, kind, at, after, writing)
        finally:
            os._exit(1)
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    pause = rng.uniform(0.0, 0.02)
    if not kind:
        time.sleep(pause)
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    done = f"{form}: killed {f'at {kind} {at}, after={after}' if kind else f'{pause * 1000:.1f} ms later'}"
    if os.waitstatus_to_exitcode(status) == 0:
        return "", done, "saves that made fewer calls"
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        return "a saver ended by itself", done, "kills"
    left = len([found for found in folder.iterdir() if found.name != "m"])
    try:
        if value_of(form, path) not in (1.0, 2.0):
            return "a file of other weights", done, "kills"
        SAVERS[form](model(3.0), path)
        if value_of(form, path) != 3.0:
            return "the save after a kill is not in the file", done, "kills"
    except BaseException as error:
        return f"a kill lost the file: {type(error).__name__}: {error}".replace(str(folder), ""), done, "kills"
    if [found.name for found in folder.iterdir()] != ["m"]:
        return "the next save leaves a temporary file", done, "kills"
    return "", done, "kills that left a temporary file" if left else "kills"


def child(folder: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Kills savers until the time is over."""
    from saving.forms import SAVERS, model

    shim, rng, deadline = shim_here(), random.Random(seed), time.monotonic() + seconds
    for form in SAVERS:
        SAVERS[form](model(0.0), folder / "m")
    counts: dict[str, int] = {}
    failures: dict[str, str] = {}
    while not counts or time.monotonic() < deadline:
        form = rng.choice(list(SAVERS))
        symptom, done, what = killed(shim, folder, form, rng)
        counts[what] = counts.get(what, 0) + 1
        if what != "saves that made fewer calls":
            counts[f"of {form}"] = counts.get(f"of {form}", 0) + 1
        if symptom:
            failures.setdefault(symptom, done)
    return {"counts": counts, "failures": failures}


@attack("saving.kills", weight=2.0, least=1.0, needs=lambda: "" if os.name == "posix" else "POSIX")
def kills(run: Run) -> None:
    """Kills savers until the deadline."""
    run.case = 0
    run_child(run, __file__)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(child(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))))
