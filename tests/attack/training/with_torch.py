"""Training loops with prediction against the same loops in PyTorch on the CPU: values agree but for rounding.

``prediction.pytorch`` compares all values that a loop sees, and at which steps it raises. The largest difference is
relative to the largest number of a tensor. A loop ends to be compared at its first error that is not of the program, as
an error in the middle leaves what was computed before it, in the order of each library.
"""

from __future__ import annotations

import importlib.util
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from registry import Run, attack
from shrink import minimal

from training.observed_loops import DRAWING, WITH_CLOSURE, Loop, drawn_loop, observed
from training.predicted import Seen, seen
from training.programs import BY_SIGN, NOT_OF_TORCH, torch_library

# Rounding over a loop: in float64, and in float32 for each step, where only plain SGD does not divide by small numbers.
ROUNDING = {"float64": 1e-6, "float32": 2e-3}
# A direction over pairs that nearly cancel amplifies rounding, so that longer loops part.
ROUNDING_OF_LBFGS, _STEPS_OF_LBFGS = 1e-4, 4
# Numbers above it are of a loop that diverges, which amplifies rounding too.
_DIVERGES = 1e6
# Parts with another meaning in PyTorch, and why.
EXCLUDED = {
    "autocast": "which ops round to bfloat16 differs",
    "text": "the text of a tensor is netcl's",
    "version": "an op may write once or twice",
    "flags": "names of gradient functions and layouts are netcl's",
    "storage": "layouts of results are netcl's",
    "read flags": "it reads the flags",
    "host array": "the array shares the parameter's memory in PyTorch",
    "host data": "the memory of an array is shared until netcl copies it",
    "overwrite saved": "which values an op saves is its own",
    "write x": "which values an op saves is its own",
    "identity": "a gradient may be the tensor that backward made",
    "evaluate": "batch norm of a network that saw an error",
    "clip device": "it scales what the step reads, and leaves the gradients as they are",
    "wrong shape": "an error of an op in the middle",
}
# Texts of errors that one library alone raises, and why.
_ERRORS = {
    "modified by an inplace operation": "a write in place into what PyTorch saved",
    "is a view and is being modified inplace": "a write in place into a view that PyTorch refuses",
    "leaf Variable": "a write in place into a leaf",
    "is not implemented": "a derivative that PyTorch has not",
    "that its gradient needs was overwritten": "a write in place into what netcl saved",
    "cannot go through a checkpoint": "a graph of gradients through a checkpoint, which netcl refuses",
}
# Seconds after the deadline in which a failure is made smaller.
_SHRINKING_S = 15.0


def comparable(loop: Loop) -> Loop:
    """Returns the loop without parts that draw numbers or that mean something else in PyTorch."""

    def stays(part: tuple[Any, ...]) -> bool:
        name, number = part[3:] if part[0] == "deed" else ("", 0)
        around = name == "around" and number % 6 in (0, 3)  # saved tensors, autocast
        live = name == "optimizer state" and number % 2 == 0  # a step is a tensor in PyTorch, which goes on
        inside = name == "extra step" and loop.optimizer in WITH_CLOSURE  # a step of LBFGS within its own closure
        return not (around or live or inside or set(part) & {*DRAWING, *EXCLUDED})

    dtype = loop.dtype if loop.optimizer == "SGD" else "float64"
    if loop.optimizer in WITH_CLOSURE:
        loop = replace(loop, steps=_STEPS_OF_LBFGS)
    return replace(loop, dtype=dtype, parts=tuple(part for part in loop.parts if stays(part)))


def _numbers(value: Any) -> Iterator[Any]:
    """Yields the numbers of a value that was seen: arrays, numbers, None; no texts."""
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _numbers(each)
    elif not isinstance(value, str):
        yield value


def apart(a: Any, b: Any) -> float:
    """Returns the largest difference of two values relative to the largest number; infinity for other shapes."""
    if a is None or b is None:
        return 0.0 if a is b else math.inf
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape:
        return math.inf
    kept = np.isfinite(a)
    if not np.array_equal(kept, np.isfinite(b)):
        return math.inf
    return float(np.abs(a[kept] - b[kept]).max(initial=0) / max(np.abs(a[kept]).max(initial=0), 1e-3))


def _value(state: Any) -> Any:
    """Returns the value of a state, which is a tensor in one library and a number in the other."""
    return state[1] if isinstance(state, list) else state


def _largest(value: Any) -> float:
    arrays = [np.abs(np.asarray(each, np.float64)) for each in _numbers(value) if each is not None]
    return max((float(np.nan_to_num(each, nan=np.inf).max(initial=0)) for each in arrays), default=0.0)


def _named(found: Seen) -> tuple[list[tuple[str, Any]], dict[str, Any]]:
    """Returns what was seen in order without its numbers, and the optimizer's states by name."""
    pairs = [(name.split(" ", 1)[1], value) for name, value in found.items()]
    states = {name: value for name, value in pairs if " state " in name}
    own = (" state ", " version ", " next number")
    return [pair for pair in pairs if not any(text in pair[0] for text in own)], states


def difference(loop: Loop, wanted: Seen, found: Seen) -> tuple[str, str]:
    """Returns what netcl has seen otherwise than PyTorch ("" for nothing), and why that is no fault."""
    if "error outside of a step" in found:
        return str(found), ""
    wanted_list, wanted_states = _named(wanted)
    found_list, found_states = _named(found)
    for (name, value), (other, value_of_other) in zip(wanted_list, found_list):
        if name != other:
            shown = f"{name} in PyTorch, {other} in netcl: {str(value)[:150]} against {str(value_of_other)[:150]}"
            errors = str(value) + str(value_of_other)
            return shown, next((why for text, why in _ERRORS.items() if text in errors), "")
        if name.endswith("error"):
            if "UserError" in value:
                continue
            return "", "both raise"
        text = _apart(loop, name, value, value_of_other)
        if text:
            return text, "it diverges" if _largest(value) > _DIVERGES else ""
    if len(wanted_list) != len(found_list):
        return "more was seen", ""
    both = [name for name in wanted_states if name in found_states and name.rsplit(" ", 1)[-1] in _STATES]
    pairs = ((name, _value(wanted_states[name]), _value(found_states[name])) for name in both)
    texts = (_apart(loop, *pair) for pair in pairs)
    return next((text for text in texts if text), ""), ""


# States with one meaning in both libraries.
_STATES = ("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "square_avg", "acc_delta", "sum", "n_iter", "func_evals")


def _apart(loop: Loop, name: str, value: Any, other: Any) -> str:
    dtype = "float32" if name.endswith(" far") else loop.dtype  # netcl's other device computes in float32
    allowed = ROUNDING[dtype] * (loop.steps if dtype == "float32" else 1)
    if loop.optimizer in WITH_CLOSURE:
        allowed = ROUNDING_OF_LBFGS
    a, b = list(_numbers(value)), list(_numbers(other))
    far = math.inf if len(a) != len(b) else max(map(apart, a, b), default=0.0)
    shown = f"{str(value)[:120]} against {str(other)[:120]}".replace("\n", "")
    return f"{name} differs by {far:.1e}: {shown}" if far > allowed else ""


def compared(loop: Loop, run: Run | None = None) -> tuple[str, str]:
    """Returns the ``difference`` of a loop."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = observed(loop, draws=False, library=torch_library)
    (found,) = seen([(loop, "cpu")], "early", run)
    return difference(loop, wanted, found)


@attack(
    "prediction.pytorch",
    weight=1.0,
    least=5.0,
    needs=lambda: "" if importlib.util.find_spec("torch") else "PyTorch",
)
def with_pytorch(run: Run) -> None:
    """Loops on NumPy with prediction, and the same in PyTorch."""
    for rng in run.cases():
        loop = comparable(drawn_loop(rng))
        if loop.optimizer in (*NOT_OF_TORCH, *BY_SIGN):
            loop = replace(loop, optimizer="SGD", option=0)
        run.count("loops")
        text, why = compared(loop, run)
        if why:
            run.count(f"known: {why}")
        elif text:
            small = _shrunk(loop, run.deadline)
            run.fail(f"{compared(small)[0] or text} ({loop.optimizer})", reproducer=repr(small))


def _shrunk(loop: Loop, deadline: float) -> Loop:
    def differs(parts: Sequence[tuple[Any, ...]]) -> bool:
        if time.monotonic() > deadline + _SHRINKING_S:
            return False
        text, why = compared(replace(loop, parts=tuple(parts)))
        return bool(text) and not why

    return replace(loop, parts=tuple(minimal(loop.parts, differs, attempts=40)))
