"""Update rules written once as expressions, and the lanes of parameters that they step: one launch per dtype.

A rule never sees a number. Hyper-parameters and the step count are 0-d tensors on the device, so that a schedule
changes a value and no kernel, and a captured step replays with new values. Per lane one small launch counts the step
and derives what depends on it (bias corrections); then all parameters of a dtype take one launch with several outputs,
in place (``evaluate_each``). Rules that reduce over a parameter take their launches for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.core.dispatch import evaluate, evaluate_each
from netcl.core.errors import DTypeError
from netcl.core.expr import Expr, Load, apply, cast

Values = Mapping[str, Expr]


@dataclass(frozen=True)
class Rule:
    """How one parameter is updated. Fields are the options that change the form of the kernel; numbers are none of
    them.

    ``states`` names the tensors kept per parameter, of its shape unless ``state_shape`` says otherwise, ``running`` the
    scalars kept per lane with their first values.
    """

    maximize: bool = False

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the tensors that the rule keeps for each parameter."""
        return ()

    @property
    def running(self) -> Mapping[str, float]:
        """Names and first values of the scalars that the rule keeps for all parameters stepped together."""
        return {}

    def advance(self, running: Values, numbers: Values) -> Values:
        """New values of every running scalar, and further scalars for ``update``, from the running ones and the
        hyper-parameters.
        """
        return {}

    def for_rank(self, rank: int) -> Rule:
        """The rule for parameters of so many dimensions; only those that reduce over the parameter differ."""
        return self

    def state_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a state of a parameter of ``shape``."""
        return shape

    def update(self, p: Expr, g: Expr, states: Values, numbers: Values) -> tuple[Expr, Values]:
        """The new parameter and states; ``g`` points uphill already, also when maximizing."""
        raise TypeError(f"{type(self).__name__} has no update")


def one_minus_power(log_base: Expr, exponent: Expr) -> Expr:
    """1 - base**exponent, exact where base is near one."""
    return -apply("expm1", exponent * log_base)


class _Slots:
    """Hands out input slots by name at first use, so that a kernel takes only what its rule reads."""

    def __init__(self, first: int, dtype: str) -> None:
        self.first, self.dtype = first, dtype
        self.names: list[str] = []

    def load(self, name: str, dtype: str | None = None) -> Expr:
        if name not in self.names:
            self.names.append(name)
        return Load(self.first + self.names.index(name), dtype or self.dtype)


class _Numbers(Mapping[str, Expr]):
    """Scalars by name, each a load of a 0-d tensor."""

    def __init__(self, slots: _Slots, known: Sequence[str]) -> None:
        self._slots, self._known = slots, tuple(known)

    def __getitem__(self, name: str) -> Expr:
        if name not in self._known:
            raise KeyError(f"the rule reads {name!r}, but there are only {', '.join(self._known)}")
        return self._slots.load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


@dataclass(frozen=True)
class Kernel:
    """Expressions with the names of the scalars that follow their fixed inputs."""

    outputs: tuple[Expr, ...]
    scalars: tuple[str, ...]


def compute_dtype(dtype: str) -> str:
    """The dtype in which a parameter's rule computes and keeps its states: float64 for float64, else float32."""
    if dtype not in ("float16", "bfloat16", "float32", "float64"):
        raise DTypeError(f"an optimizer steps floating parameters, not {dtype}; leave it out or freeze it")
    return "float64" if dtype == "float64" else "float32"


FOUND, SCALE, CLIP = "found_inf", "grad_scale", "clip"
MASTER = "master"
# How far a number and what it rounds to may lie apart: times the rounded one, and below the least normal one.
_ROUNDING = {"float16": (2.0**-11, 2.0**-25), "bfloat16": (2.0**-8, 0.0)}


def states_of(rule: Rule, dtype: str) -> tuple[str, ...]:
    """The names of the states of a parameter of ``dtype``: those of the rule, and the master of a half one."""
    return (*rule.states, MASTER) if dtype in _ROUNDING else rule.states


def state_shape(rule: Rule, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a state of ``states_of``."""
    return shape if name == MASTER else rule.state_shape(name, shape)


@lru_cache(maxsize=1024)
def update_kernel(
    rule: Rule, numbers: tuple[str, ...], p_dtype: str, g_dtype: str, around: tuple[tuple[str, str], ...] = ()
) -> Kernel:
    """The kernel of a parameter: inputs p, g, states, scalars; outputs p and states.

    ``around`` names, with dtypes, what is done in the same pass: with FOUND nothing changes where that is not 0, with
    SCALE the gradient is divided by it, which is one more output, with CLIP the update takes it times that factor.

    The last state of a half parameter is its master: the parameter before it was rounded. Where somebody else has
    written the parameter it is no longer what the master rounds to, and counts itself.
    """
    dtype = compute_dtype(p_dtype)
    old_p, g = cast(Load(0, p_dtype), dtype), cast(Load(1, g_dtype), dtype)
    old = {name: Load(2 + at, dtype) for at, name in enumerate(states_of(rule, p_dtype))}
    if MASTER in old:
        relative, absolute = _ROUNDING[p_dtype]
        near = apply("abs", old[MASTER] - old_p) <= apply("abs", old_p) * relative + absolute
        old_p = apply("where", near, old[MASTER], old_p)
    slots = _Slots(2 + len(old), dtype)
    extra = {name: cast(slots.load(name, given), dtype) for name, given in around if name != FOUND}
    unscaled: tuple[Expr, ...] = ()
    if SCALE in extra:
        g = g / extra[SCALE]
        unscaled = (cast(g, g_dtype),)
    if CLIP in extra:
        g = g * extra[CLIP]
    new_p, new = rule.update(old_p, -g if rule.maximize else g, old, _Numbers(slots, numbers))
    outputs = [cast(new_p, dtype), *(cast(new[name], dtype) for name in rule.states)]
    if FOUND in dict(around):
        skip = apply("ne", slots.load(FOUND, "float32"), 0.0)
        outputs = [apply("where", skip, before, after) for before, after in zip([old_p, *old.values()], outputs)]
    masters = outputs[:1] if MASTER in old else ()
    return Kernel((cast(outputs[0], p_dtype), *outputs[1:], *masters, *unscaled), tuple(slots.names))


@lru_cache(maxsize=256)
def advance_kernel(rule: Rule, numbers: tuple[str, ...], dtype: str, guarded: bool) -> tuple[Kernel, tuple[str, ...]]:
    """The kernel of a lane, over scalars alone, and the names of its outputs, of which the first are the running
    scalars.
    """
    slots = _Slots(0, dtype)
    running = {name: slots.load(name) for name in rule.running}
    values = dict(rule.advance(running, _Numbers(slots, numbers)))
    names = (*rule.running, *(name for name in values if name not in rule.running))
    outputs = [cast(values[name], dtype) for name in names]
    if guarded:
        skip = apply("ne", slots.load(FOUND, "float32"), 0.0)
        outputs = [apply("where", skip, running[n], o) if n in running else o for n, o in zip(names, outputs)]
    return Kernel(tuple(outputs), tuple(slots.names)), names


class DeviceNumbers:
    """The hyper-parameters of a param group as 0-d tensors on one queue, written only when they change."""

    def __init__(self, queue: Any, dtype: str) -> None:
        self.queue, self.dtype = queue, dtype
        self.tensors: dict[str, Tensor] = {}
        self._written: dict[str, float] = {}

    def set(self, values: Mapping[str, float]) -> None:
        """Writes the values that differ from those on the device."""
        for name, value in values.items():
            if name in self.tensors and self._written[name] == value:
                continue
            if name not in self.tensors:
                self.tensors[name] = Tensor.full((), value, self.dtype, queue=self.queue, persistent=True)
            else:
                self.tensors[name].write(np.asarray(value, np.float64))
            self._written[name] = value


class Lane:
    """Parameters of one group, on one queue and in one compute dtype, that have always been stepped together: they
    share a step count.
    """

    def __init__(self, members: list[Tensor], numbers: DeviceNumbers) -> None:
        self.members, self.numbers = members, numbers
        self.running: dict[str, Tensor] = {}
        self._derived: dict[str, Tensor] = {}

    def _scalar(self, value: float) -> Tensor:
        return Tensor.full((), value, self.numbers.dtype, queue=self.numbers.queue, persistent=True)

    def set_running(self, values: Mapping[str, float]) -> None:
        """Overwrites running scalars with host values."""
        for name, value in values.items():
            if name in self.running:
                self.running[name].write(np.asarray(value, np.float64))
            else:
                self.running[name] = self._scalar(value)

    def split(self, leaving: list[Tensor]) -> Lane:
        """A new lane of ``leaving``, with the same counts, which from now on go their own way."""
        gone = {id(p) for p in leaving}
        self.members = [p for p in self.members if id(p) not in gone]
        other = Lane(leaving, self.numbers)
        for name, tensor in self.running.items():
            other.running[name] = self._scalar(0.0).write(tensor)
        return other

    def advance(self, rule: Rule, around: Mapping[str, Tensor]) -> None:
        """Counts one step and derives its scalars, in one launch; none where the rule keeps no count."""
        self.set_running({name: value for name, value in rule.running.items() if name not in self.running})
        kernel, names = advance_kernel(rule, tuple(self.numbers.tensors), self.numbers.dtype, FOUND in around)
        if not names:
            return
        for name in names[len(rule.running) :]:
            if name not in self._derived:
                self._derived[name] = self._scalar(0.0)
        out = [self.running[name] if name in self.running else self._derived[name] for name in names]
        evaluate(kernel.outputs, self.scalars(kernel.scalars, around), out=out)

    def scalars(self, names: Sequence[str], around: Mapping[str, Tensor]) -> list[Tensor]:
        """The 0-d tensors of these names."""
        known = {**self.numbers.tensors, **self.running, **self._derived, **around}
        return [known[name] for name in names]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all scalars that a rule's update may read."""
        return (*self.numbers.tensors, *self.running, *self._derived)

    def update(self, rule: Rule, states_of: Callable[[Tensor], Sequence[Tensor]], around: Mapping[str, Tensor]) -> None:
        """Steps the parameters and their states in place, those of the same dtypes together."""
        together: dict[tuple[Rule, str, str], list[list[Tensor]]] = {}
        for p in self.members:
            assert p.grad is not None
            key = (rule.for_rank(p.ndim), p.dtype, p.grad.dtype)
            together.setdefault(key, []).append([p, p.grad, *states_of(p)])
        for (one, *dtypes), inputs in together.items():
            kernel = update_kernel(
                one, self.names, *dtypes, tuple((name, tensor.dtype) for name, tensor in around.items())
            )
            out = [[p, *states, *([g] if SCALE in around else [])] for p, g, *states in inputs]
            evaluate_each(kernel.outputs, inputs, self.scalars(kernel.scalars, around), out=out)
