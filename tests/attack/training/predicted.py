"""Training loops with prediction against the same without: all that a user can see is equal to the bit.

``prediction.numpy``, ``prediction.pocl``, ``prediction.intel``, and ``prediction.threads``: a loop in each of two
threads, on one device or on two.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from arithmetic.engines import engines
from registry import Run, attack
from shrink import minimal

from netcl.core import config
from netcl.core.device import device
from netcl.runtime import prediction
from training.observed_loops import DRAWING, Loop, drawn_loop, observed

# Of a run on an OpenCL device, where each network has kernels to build.
NETWORKS = 24
# Seconds after the deadline in which a failure is made smaller.
_SHRINKING_S = 20.0

Seen = dict[str, Any]


def seen(loops: Sequence[tuple[Loop, str]], mode: str, run: Run | None = None) -> list[Any]:
    """Returns what the user of each loop sees, each in a new thread of its own; an error in the place of a dict."""
    found: list[Any] = [None] * len(loops)

    def one(number: int, loop: Loop, driver: str) -> None:
        try:
            with device(engines()[driver].handle):
                found[number] = observed(loop, draws=len(loops) == 1)
        except BaseException as error:
            found[number] = {"error outside of a step": f"{type(error).__name__}: {error}"}
        if run is not None and mode != "off":
            report = prediction.report()
            run.count("calls predicted", report.predicted)
            run.count("calls computed", report.computed)
            run.count("replays", report.replays)
            run.count("loops with replays", bool(report.replays))

    with config.override(REPLAY=mode), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threads = [
            threading.Thread(target=one, args=(number, loop, driver)) for number, (loop, driver) in enumerate(loops)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return found


def same(a: Any, b: Any) -> bool:
    """True if two values that were seen are equal to the bit."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is not type(b):
        return False
    return a is b or repr(a) == repr(b)


def difference(wanted: Seen, found: Seen) -> str:
    """Returns the first name that was not seen alike; "" if there is none."""
    for (name, value), (other, value_of_other) in zip(wanted.items(), found.items()):
        if name != other:
            return f"{name} became {other}: {_short(value)} against {_short(value_of_other)}"
        if not same(value, value_of_other):
            return f"{name}: {_short(value)} against {_short(value_of_other)}"
    return "" if len(wanted) == len(found) else "more was seen"


def _short(value: Any) -> str:
    return repr(value).replace("\n", "")[:160]


def first_difference(loops: Sequence[tuple[Loop, str]], run: Run | None = None) -> str:
    """Returns what was seen otherwise with prediction than without; "" for nothing."""
    wanted, found = seen(loops, "off"), seen(loops, "early", run)
    outside = "error outside of a step"
    broken = next((f"{outside}: {one[outside]}" for one in wanted if outside in one), "")
    return broken or next((text for text in map(difference, wanted, found) if text), "")


def _shrunk(loop: Loop, driver: str, deadline: float) -> Loop:
    def differs(parts: Sequence[tuple[Any, ...]]) -> bool:
        if time.monotonic() > deadline + _SHRINKING_S:
            return False
        return bool(first_difference([(replace(loop, parts=tuple(parts)), driver)]))

    return replace(loop, parts=tuple(minimal(loop.parts, differs, attempts=60)))


def attacked(run: Run, driver: str) -> None:
    """Runs loops on a device until the deadline."""
    for rng in run.cases():
        loop = drawn_loop(rng, of=run.rng(-1 - rng.randrange(NETWORKS)) if driver != "cpu" else None)
        run.count("loops")
        text = first_difference([(loop, driver)], run)
        if text:
            small = _shrunk(loop, driver, run.deadline)
            text = first_difference([(small, driver)]) or f"not always: {text}"
            run.fail(f"on {driver}: {text}", reproducer=repr(small))


def _needs(driver: str) -> Callable[[], str]:
    return lambda: "" if driver in engines() else f"the OpenCL driver {driver}"


@attack("prediction.numpy", weight=2.0, least=2.0)
def on_numpy(run: Run) -> None:
    """Loops on NumPy, where they are fastest."""
    attacked(run, "cpu")


@attack("prediction.pocl", weight=1.0, least=30.0, needs=_needs("pocl"))
def on_pocl(run: Run) -> None:
    """Loops on PoCL."""
    attacked(run, "pocl")


@attack("prediction.intel", weight=1.0, least=30.0, needs=_needs("intel"))
def on_intel(run: Run) -> None:
    """Loops on Intel's runtime."""
    attacked(run, "intel")


@attack("prediction.gpu", weight=1.0, least=30.0, needs=_needs("gpu"))
def on_gpu(run: Run) -> None:
    """Loops on a GPU."""
    attacked(run, "gpu")


def _without_draws(loop: Loop) -> Loop:
    return replace(loop, parts=tuple(part for part in loop.parts if not set(part) & set(DRAWING)))


@attack("prediction.threads", weight=1.0, least=2.0)
def in_threads(run: Run) -> None:
    """Two loops at once, that draw no random numbers."""
    others = [name for name in ("cpu", "pocl") if name in engines()]
    for rng in run.cases():
        drivers = ["cpu", rng.choice(others) if run.case % 4 == 0 else "cpu"]
        loops = [
            (_without_draws(drawn_loop(rng, run.rng(-1 - rng.randrange(4)) if driver != "cpu" else None)), driver)
            for driver in drivers
        ]
        run.count("pairs of loops")
        text = first_difference(loops, run)
        if text:
            run.fail(f"in threads: {text}", reproducer=repr(loops))
