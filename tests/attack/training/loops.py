"""Random training programs by capture, by compile_training_step, jitted, and in PyTorch, against the same op by op.

``training.numpy``, ``training.pocl``, ``training.intel``: captured steps have the bits of separate calls. Jitted ones
(in float64) and PyTorch's differ by rounding alone.
"""

from __future__ import annotations

import importlib.util
import random
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from arithmetic.engines import engines
from registry import Run, attack
from shrink import minimal

from netcl.autograd import jit_compile
from netcl.autograd.training_compiler import compile_training_step
from netcl.core.device import device
from netcl.core.errors import CaptureError
from netcl.runtime.capture import capture
from training.programs import BY_SIGN, NOT_OF_TORCH, Program, State, drawn, netcl_library, torch_library

# Relative to the largest number of a tensor: rounding over a whole program in float64.
ROUNDING = 1e-7
# Of a run on an OpenCL device, where each network has kernels to build.
NETWORKS = 16
# Seconds after the deadline in which a failure is made smaller.
_SHRINKING_S = 15.0

Outcome = dict[str, Any]


def _result(value: Any) -> list[Any]:
    return [np.array(each.detach().numpy()) for each in (value if isinstance(value, tuple) else (value,))]


def _state_of(state: State) -> Outcome:
    found: Outcome = {}
    for kind, named in (("parameter", state.net.named_parameters()), ("buffer", state.net.named_buffers())):
        found.update({f"{kind} {name}": np.array(p.detach().numpy()) for name, p in named})
    for name, p in state.net.named_parameters():
        found[f"gradient {name}"] = None if p.grad is None else np.array(p.grad.detach().numpy())
    if state.lib.name == "netcl":
        for number, values in state.optimizer.state_dict()["state"].items():
            for key, value in sorted(values.items()):
                found[f"state {number} {key}"] = np.array(value.numpy() if hasattr(value, "numpy") else value)
    return found


class Captured:
    """Runs a step by its capture from the third call on; a CaptureError leads to the call itself."""

    def __init__(self, step: Callable[..., Any], run: Run | None) -> None:
        self.step, self.run, self.calls, self.captured = step, run, 0, None

    def __call__(self, *batch: Any) -> Any:
        self.calls += 1
        if self.calls < 3:
            return self.step(*batch)
        for _ in range(2):
            try:
                if self.captured is None:
                    self.captured = capture(self.step, *batch)
                result = self.captured.replay(*batch)
            except CaptureError:
                self.captured = None
                continue
            if self.run is not None:
                self.run.count("replays")
            return result
        if self.run is not None:
            self.run.count("refused captures")
        return self.step(*batch)


def outcome(program: Program, mode: str, run: Run | None = None) -> Outcome:
    """Returns all numbers of a program in one of the modes: losses, parameters, buffers, gradients, states."""
    lib = (torch_library if mode == "torch" else netcl_library)(program.dtype)
    state = State(program, lib, jit=jit_compile if mode.startswith("jit") else None)
    step: Callable[..., Any] = state.step
    if mode.endswith("capture"):
        step = Captured(state.step, run)
    elif mode == "compile_training_step":
        step = compile_training_step(state.step)
    late, found = [], {}
    for number in range(program.steps):
        for at, name, choice in program.of("event"):
            if at == number:
                state.event(name, choice)
        value = step(*state.data())
        if program.has("read late"):
            late.append((number, value))
        else:
            found[f"loss {number}"] = _result(value)[0]
        if state.scheduler is not None:
            state.scheduler.step()
        if program.has("zero outside") and number % 2:
            state.optimizer.zero_grad(set_to_none=not program.has("keep zeros"))
    found.update({f"loss {number}": _result(value)[0] for number, value in late})
    return {**found, **_state_of(state)}


def distance(a: Any, b: Any) -> float:
    """Returns 0 for equal bits, the largest difference relative to the largest number, or infinity."""
    if a is None or b is None or a.shape != b.shape or a.dtype != b.dtype:
        return 0.0 if a is b else float("inf")
    if a.tobytes() == b.tobytes():
        return 0.0
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return float("inf")
        apart = np.abs(np.where(np.isfinite(a), a - b, 0)).max(initial=0)
        return float(apart / max(np.abs(np.where(np.isfinite(a), a, 0)).max(initial=0), 1e-30)) or 1e-300


def first_difference(wanted: Outcome, found: Outcome, mode: str) -> str:
    """Returns the first name with different numbers, in order of the losses; "" if none."""
    with_states = mode in ("capture", "compile_training_step")
    for name, value in wanted.items():
        if not with_states and name.startswith(("state", "gradient")):
            continue
        other = found.get(name)
        if with_states:
            differs = distance(value, other) > 0
        else:
            differs = distance(value, None if other is None else other.astype(value.dtype)) > ROUNDING
        if differs:
            return name
    return ""


def compared(program: Program, mode: str, driver: str, wanted: Outcome, run: Run | None = None) -> tuple[str, str]:
    """Returns what differs between a mode and separate calls ("" if nothing), and why it is no fault ("" if it is)."""
    try:
        found = outcome(program, mode, run)
    except (Exception, SystemError) as error:  # any error of a mode is a difference
        shown = f"{mode} on {driver}: {type(error).__name__}: {str(error).splitlines()[0][:90]}"
        lacking = mode == "torch" and "is not implemented" in str(error)
        return shown, "a derivative that PyTorch has not" if lacking else ""
    name = first_difference(wanted, found, mode)
    return (f"{mode} on {driver}: {name} differs" if name else ""), ""


def _modes(program: Program, rng: random.Random, driver: str, with_torch: bool) -> list[str]:
    modes = [rng.choice(("capture", "compile_training_step"))]
    if program.dtype == "float64":
        jitted = rng.random() < 0.5 and program.optimizer not in BY_SIGN
        modes += [rng.choice(("jit", "jit+capture"))] if jitted else []
        if with_torch and driver == "cpu" and not program.random and program.optimizer not in NOT_OF_TORCH:
            modes.append("torch")
    return modes


def loops(run: Run, driver: str) -> None:
    """Runs programs on a device until the deadline."""
    with_torch = importlib.util.find_spec("torch") is not None
    with device(engines()[driver].handle), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rng in run.cases():
            program = drawn(rng, of=run.rng(-1 - rng.randrange(NETWORKS)) if driver != "cpu" else None)
            run.count("programs")
            try:
                wanted = outcome(program, "eager")
            except Exception as error:
                text = f"separate calls on {driver}: {type(error).__name__}: {str(error)[:80]}"
                run.fail(text, reproducer=repr(program))
                continue
            for mode in _modes(program, rng, driver, with_torch):
                if time.monotonic() > run.deadline and run.only_case is None:
                    break
                run.count(mode)
                text, why = compared(program, mode, driver, wanted, run)
                if why:
                    run.count(f"known: {why}")
                elif text:
                    small = _shrunk(program, mode, driver, run.deadline)
                    run.fail(f"{text} ({program.optimizer})", reproducer=repr(small))


def _shrunk(program: Program, mode: str, driver: str, deadline: float) -> Program:
    def differs(parts: Sequence[tuple[Any, ...]]) -> bool:
        if time.monotonic() > deadline + _SHRINKING_S:
            return False
        smaller = replace(program, parts=tuple(parts))
        try:
            text, why = compared(smaller, mode, driver, outcome(smaller, "eager"))
        except Exception:  # of the separate calls
            return False
        return bool(text) and not why

    return replace(program, parts=tuple(minimal(program.parts, differs, attempts=40)))


def _needs(driver: str) -> Callable[[], str]:
    return lambda: "" if driver in engines() else f"the OpenCL driver {driver}"


@attack("training.numpy", weight=2.0, least=2.0)
def on_numpy(run: Run) -> None:
    """Programs on NumPy, where they are fastest, and in PyTorch if it is there."""
    loops(run, "cpu")


@attack("training.pocl", weight=1.0, least=30.0, needs=_needs("pocl"))
def on_pocl(run: Run) -> None:
    """Programs on PoCL."""
    loops(run, "pocl")


@attack("training.intel", weight=1.0, least=30.0, needs=_needs("intel"))
def on_intel(run: Run) -> None:
    """Programs on Intel's runtime."""
    loops(run, "intel")


@attack("training.gpu", weight=1.0, least=30.0, needs=_needs("gpu"))
def on_gpu(run: Run) -> None:
    """Programs on a GPU."""
    loops(run, "gpu")
