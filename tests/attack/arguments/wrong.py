"""Wrong arguments of every public function: no crash, no hang, and errors in netcl's words.

Each case walks over a part of the functions in a child (``walk.py``), first with values of other types, then with huge
integers in a limited address space. A child that dies or is silent for too long is a failure; the errors that Python or
NumPy raised in an inner line are counted.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from pathlib import Path

from registry import Run, attack

PARTS = 40
SILENCE_S = 60.0  # with the import


def walk(run: Run, kind: str, device: str, part: int) -> None:
    """Runs the child over one part of the functions and reads its lines."""
    command = [sys.executable, str(Path(__file__).with_name("walk.py")), kind, str(part), str(PARTS)]
    environment = {**os.environ, "NETCL_DEVICE": device, "NETCL_BUILD_PROCESSES": "0"}
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    child = subprocess.Popen(
        command, stdout=pipe, stderr=nothing, stdin=nothing, env=environment, cwd=run.folder, start_new_session=True
    )
    assert child.stdout is not None
    os.set_blocking(child.stdout.fileno(), False)
    selector, last, ended, rest = selectors.DefaultSelector(), "the import", False, b""
    selector.register(child.stdout, selectors.EVENT_READ)
    try:
        while selector.select(SILENCE_S) and (data := child.stdout.read()):
            *lines, rest = (rest + data).split(b"\n")
            for line in map(json.loads, lines):
                last, ended = line.get("calls", last), ended or "end" in line
                run.count("calls", line.get("made", 0))
                for symptom, _ in line.get("found", {}).values():
                    run.count(symptom)
    finally:
        if child.poll() is None and not ended:
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
    if not ended:
        run.fail(f"the process died or was silent at {last}", reproducer=f"NETCL_DEVICE={device} {' '.join(command)}")


@attack("arguments.types", weight=1.0, least=30.0, needs=lambda: "" if os.name == "posix" else "POSIX")
def types(run: Run) -> None:
    """An int, None, a text, lists, a dict and an object in place of each argument."""
    for rng in run.cases():
        walk(run, "types", "cpu", rng.randrange(PARTS))


@attack("arguments.integers", weight=1.0, least=30.0, needs=lambda: "" if sys.platform == "linux" else "Linux")
def integers(run: Run) -> None:
    """2**31, 10**30 and -1 in place of each argument."""
    for rng in run.cases():
        walk(run, "integers", "cpu", rng.randrange(PARTS))
