"""SIGKILL of training runs, of one process and of two ranks in turn: the resumed run ends with the bits of an unbroken
one.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from registry import Run, attack

from saving.faults import run_child


def started(folder: Path, ranks: int) -> list[int]:
    """Forks the processes of a run; each writes its result to a file when it is complete."""
    from netcl.distributed.transports.shared import create
    from saving import training

    rendezvous = create(ranks) if ranks > 1 else None
    processes = []
    for rank in range(ranks):
        process = os.fork()
        if not process:
            code = 1
            try:
                os.setpgid(0, 0)
                if rendezvous is None:
                    found = training.train(folder)
                else:
                    training.as_rank(rank, ranks, rendezvous)
                    found = training.train_rank(folder)
                (folder / f"result-{rank}").write_text(found)
                code = 0
            except BaseException as error:
                (folder / f"error-{rank}").write_text(f"{type(error).__name__}: {error}")
            finally:
                os._exit(code)
        processes.append(process)
    return processes


def finished(processes: list[int]) -> list[int]:
    """Waits for processes; returns their exit codes."""
    return [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]


def swept() -> None:
    """Removes the rendezvous files of this process."""
    for path in Path("/dev/shm").glob(f"netcl-{os.getpid()}-*"):
        path.unlink(missing_ok=True)


def results(folder: Path, ranks: int) -> list[str]:
    """Returns what the processes of a complete run wrote."""
    return [(folder / f"result-{rank}").read_text() for rank in range(ranks)]


def one_run(folder: Path, ranks: int, rng: random.Random, limit: float, expected: list[str]) -> tuple[str, int, int]:
    """Kills a run again and again until it completes; returns the broken promise, the kills, and the runs."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    kills = 0
    for _ in range(200):
        processes = started(folder, ranks)
        # A run takes about ``limit`` seconds from its start; a sixth of them may complete.
        pause = rng.uniform(0.0, 1.2 * limit)
        end = time.monotonic() + pause
        while time.monotonic() < end and any(os.waitid(os.P_PID, p, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
                                             for p in processes):  # fmt: skip
            time.sleep(0.001)
        order = rng.sample(processes, len(processes))
        for process in order:
            os.kill(process, signal.SIGKILL)
            time.sleep(rng.choice((0.0, 0.0, 0.002)))
        codes = finished(processes)
        swept()
        if any(code == -signal.SIGKILL for code in codes):
            kills += 1
            continue
        if any(codes):
            errors = "; ".join(path.read_text() for path in folder.glob("error-*"))
            return f"a resumed run failed: {errors}", kills, 1
        if results(folder, ranks) != expected:
            return f"a resumed run of {ranks} process(es) has other bits", kills, 1
        left = [path.name for path in folder.iterdir() if path.name.endswith(".tmp")]
        return f"a complete run leaves {len(left)} temporary file(s)" if left else "", kills, 1
    return "", kills, 0


def child(folder: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Kills runs until the time is over."""
    rng, deadline = random.Random(seed), time.monotonic() + seconds
    counts: dict[str, int] = {}
    failures: dict[str, str] = {}
    limits: dict[int, float] = {}
    expected: dict[int, list[str]] = {}
    for ranks in (1, 2):
        for attempt in (0, 1):
            whole = folder / f"whole-{ranks}-{attempt}"
            whole.mkdir()
            start = time.monotonic()
            codes = finished(started(whole, ranks))
            swept()
            if any(codes):
                errors = "; ".join(path.read_text() for path in whole.glob("error-*"))
                return {"counts": counts, "failures": {f"an unbroken run failed: {errors}": str(ranks)}}
            # The second one, which imports nothing, measures the time.
            limits[ranks] = time.monotonic() - start
            if attempt and results(whole, ranks) != expected[ranks]:
                return {"counts": counts, "failures": {"two unbroken runs have other bits": str(ranks)}}
            expected[ranks] = results(whole, ranks)
    while not counts or time.monotonic() < deadline:
        # As many kills of the one kind as of the other.
        ranks = 1 if counts.get("kills of one process", 0) <= counts.get("kills of two ranks", 0) else 2
        symptom, kills, runs = one_run(folder / "run", ranks, rng, limits[ranks], expected[ranks])
        name = "of one process" if ranks == 1 else "of two ranks"
        counts[f"kills {name}"] = counts.get(f"kills {name}", 0) + kills
        counts[f"runs {name} with equal bits"] = counts.get(f"runs {name} with equal bits", 0) + (runs and not symptom)
        if symptom:
            failures.setdefault(symptom, f"seed {seed}, {ranks} ranks")
    return {"counts": counts, "failures": failures}


@attack("saving.runs", weight=3.0, least=5.0, needs=lambda: "" if sys.platform == "linux" else "Linux")
def runs(run: Run) -> None:
    """Kills training runs until the deadline."""
    run.case = 0
    run_child(run, __file__)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(child(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))))
