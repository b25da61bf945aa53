"""Fused update kernels: rules written as expressions, and the parameter buckets that a step updates with one launch per
dtype.

Hyper-parameters and the step count are 0-d tensors on the device, never constants of a rule, so that a schedule changes
a value and no kernel, and a captured step replays with new values. Per bucket one small launch counts the step and
derives the bias corrections; then all parameters of a dtype are updated in place by multi-tensor apply
(``evaluate_each``). Rules that reduce over a parameter take their launches for each parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from netcl.core import Tensor
from netcl.core.errors import CaptureError, DTypeError
from netcl.core.expr import Expr, Load, apply, cast
from netcl.core.ops_table.dispatch import evaluate, evaluate_each

Values = Mapping[str, Expr]


@dataclass(frozen=True)
class Rule:
    """The update of one parameter as expressions. Fields are the options that change the form of the kernel;
    hyper-parameters are not fields.

    ``states`` names the tensors stored per parameter, of its shape unless ``state_shape`` returns another one;
    ``running`` the scalars stored per bucket with their initial values.
    """

    maximize: bool = False

    _states: ClassVar[tuple[str, ...]] = ()
    _running: ClassVar[Mapping[str, float]] = {}

    def __init_subclass__(
        cls, states: tuple[str, ...] | None = None, running: Mapping[str, float] | None = None
    ) -> None:
        """Takes ``states`` and ``running`` as keywords of the class; a rule whose fields change them has properties."""
        super().__init_subclass__()
        cls._states, cls._running = states or cls._states, running or cls._running

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the tensors that the rule stores for each parameter."""
        return self._states

    @property
    def running(self) -> Mapping[str, float]:
        """Names and initial values of the scalars that the rule stores for all parameters of a bucket."""
        return self._running

    def advance(self, running: Values, numbers: Values) -> Values:
        """Returns new values of every running scalar, and further scalars for ``update``, from the running ones and the
        hyper-parameters.
        """
        return {}

    def for_rank(self, rank: int) -> Rule:
        """Returns the rule for parameters of ``rank`` dimensions; only rules that reduce over the parameter override
        it.
        """
        return self

    def state_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of a state of a parameter of ``shape``."""
        return shape

    def update(self, p: Expr, g: Expr, states: Values, numbers: Values) -> tuple[Expr, Values]:
        """Returns the new parameter and states; the step goes against ``g``, which is negated before if maximizing."""
        raise TypeError(f"{type(self).__name__} has no update")


@dataclass(frozen=True)
class CountingRule(Rule, running={"step": 0.0}):
    """A rule that counts its steps: it needs the count, or PyTorch's state has it."""

    def advance(self, running: Values, numbers: Values) -> Values:
        return {"step": running["step"] + 1.0}


def one_minus_power(log_base: Expr, exponent: Expr) -> Expr:
    """Returns 1 - base**exponent, exact if base is near one."""
    return -apply("expm1", exponent * log_base)


class _Slots:
    """Assigns input slots by name at first use, so that a kernel has only the inputs that its rule reads."""

    def __init__(self, first: int, dtype: str) -> None:
        self.first, self.dtype = first, dtype
        self.names: list[str] = []

    def load(self, name: str, dtype: str | None = None) -> Expr:
        if name not in self.names:
            self.names.append(name)
        return Load(self.first + self.names.index(name), dtype or self.dtype)


class _ScalarLoads(Mapping[str, Expr]):
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
class UpdateKernel:
    """Expressions with the names of the scalars that follow their fixed inputs."""

    outputs: tuple[Expr, ...]
    scalars: tuple[str, ...]


def compute_dtype(dtype: str) -> str:
    """Returns the dtype of a rule's computation and states: float64 for float64, else float32."""
    if dtype not in ("float16", "bfloat16", "float32", "float64"):
        raise DTypeError(f"expected a floating dtype of a parameter, got {dtype}; leave the parameter out or freeze it")
    return "float64" if dtype == "float64" else "float32"


FOUND, SCALE, CLIP = "found_inf", "grad_scale", "clip"
MASTER = "master"
# Bounds of the difference between a number and its rounded value: relative to the rounded value, and absolute for
# subnormals.
_ROUNDING = {"float16": (2.0**-11, 2.0**-25), "bfloat16": (2.0**-8, 0.0)}


def states_of(rule: Rule, dtype: str) -> tuple[str, ...]:
    """Returns the state names of a parameter of ``dtype``: the rule's, and for a half dtype the master copy."""
    return (*rule.states, MASTER) if dtype in _ROUNDING else rule.states


def state_shape(rule: Rule, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of a state of ``states_of``."""
    return shape if name == MASTER else rule.state_shape(name, shape)


@lru_cache(maxsize=1024)
def update_kernel(
    rule: Rule, numbers: tuple[str, ...], p_dtype: str, g_dtype: str, step_scalars: tuple[tuple[str, str], ...] = ()
) -> UpdateKernel:
    """Returns the kernel of a parameter: inputs p, g, states, scalars; outputs p and states.

    ``step_scalars`` names, with dtypes, the additional work of the same pass: with FOUND nothing changes if that scalar
    is not 0; with SCALE the gradient is divided by it, which is one more output; with CLIP the update multiplies the
    gradient by that factor.

    The last state of a half parameter is its master copy: the parameter before rounding. If the parameter was modified
    externally, it no longer matches the rounded master copy and takes precedence.
    """
    dtype = compute_dtype(p_dtype)
    old_p, g = cast(Load(0, p_dtype), dtype), cast(Load(1, g_dtype), dtype)
    old = {name: Load(2 + at, dtype) for at, name in enumerate(states_of(rule, p_dtype))}
    if MASTER in old:
        relative, absolute = _ROUNDING[p_dtype]
        near = apply("abs", old[MASTER] - old_p) <= apply("abs", old_p) * relative + absolute
        old_p = apply("where", near, old[MASTER], old_p)
    slots = _Slots(2 + len(old), dtype)
    extra = {name: cast(slots.load(name, scalar_dtype), dtype) for name, scalar_dtype in step_scalars if name != FOUND}
    unscaled: tuple[Expr, ...] = ()
    if SCALE in extra:
        g = g / extra[SCALE]
        unscaled = (cast(g, g_dtype),)
    if CLIP in extra:
        g = g * extra[CLIP]
    new_p, new = rule.update(old_p, -g if rule.maximize else g, old, _ScalarLoads(slots, numbers))
    outputs = [cast(new_p, dtype), *(cast(new[name], dtype) for name in rule.states)]
    if FOUND in dict(step_scalars):
        skip = apply("ne", slots.load(FOUND, "float32"), 0.0)
        outputs = [apply("where", skip, before, after) for before, after in zip([old_p, *old.values()], outputs)]
    masters = outputs[:1] if MASTER in old else ()
    return UpdateKernel((cast(outputs[0], p_dtype), *outputs[1:], *masters, *unscaled), tuple(slots.names))


@lru_cache(maxsize=256)
def advance_kernel(
    rule: Rule, numbers: tuple[str, ...], dtype: str, guarded: bool
) -> tuple[UpdateKernel, tuple[str, ...]]:
    """Returns the kernel that advances a bucket's scalars, and the names of its outputs, running scalars first."""
    slots = _Slots(0, dtype)
    running = {name: slots.load(name) for name in rule.running}
    values = dict(rule.advance(running, _ScalarLoads(slots, numbers)))
    names = (*rule.running, *(name for name in values if name not in rule.running))
    outputs = [cast(values[name], dtype) for name in names]
    if guarded:
        skip = apply("ne", slots.load(FOUND, "float32"), 0.0)
        outputs = [apply("where", skip, running[n], o) if n in running else o for n, o in zip(names, outputs)]
    return UpdateKernel(tuple(outputs), tuple(slots.names)), names


class DeviceHyperparameters:
    """The hyper-parameters of a param group as 0-d tensors on one queue, written only if they change."""

    def __init__(self, queue: Any, dtype: str) -> None:
        self.queue: Any = queue
        self.dtype: str = dtype
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


class Bucket:
    """A parameter bucket: parameters of one group, on one queue and in one compute dtype, that have always been stepped
    in the same calls, so they share a step count.
    """

    def __init__(self, members: list[Tensor], numbers: DeviceHyperparameters) -> None:
        self.members: list[Tensor] = members
        self.numbers: DeviceHyperparameters = numbers
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

    def split(self, leaving: list[Tensor]) -> Bucket:
        """Moves ``leaving`` to a new bucket with the same step counts, and returns it; raises CaptureError if a step is
        captured, as each replay would copy the counts.
        """
        try:
            counts = {name: float(tensor.item()) for name, tensor in self.running.items()}
        except CaptureError as error:
            raise CaptureError(
                f"optimizer step: {len(leaving)} parameters that were stepped before have no gradients in the captured "
                "step; take one step without their gradients, then capture"
            ) from error
        gone = {id(p) for p in leaving}
        self.members = [p for p in self.members if id(p) not in gone]
        other = Bucket(leaving, self.numbers)
        other.set_running(counts)
        return other

    def advance(self, rule: Rule, step_scalars: Mapping[str, Tensor]) -> None:
        """Counts one step and derives its scalars, in one launch; no launch if the rule keeps no count."""
        self.set_running({name: value for name, value in rule.running.items() if name not in self.running})
        kernel, names = advance_kernel(rule, tuple(self.numbers.tensors), self.numbers.dtype, FOUND in step_scalars)
        if not names:
            return
        for name in names[len(rule.running) :]:
            if name not in self._derived:
                self._derived[name] = self._scalar(0.0)
        out = [self.running[name] if name in self.running else self._derived[name] for name in names]
        evaluate(kernel.outputs, self.scalars(kernel.scalars, step_scalars), out=out)

    def scalars(self, names: Sequence[str], step_scalars: Mapping[str, Tensor]) -> list[Tensor]:
        """Returns the 0-d tensors of these names."""
        known = {**self.numbers.tensors, **self.running, **self._derived, **step_scalars}
        return [known[name] for name in names]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all scalars that a rule's update may read."""
        return (*self.numbers.tensors, *self.running, *self._derived)

    def update(
        self, rule: Rule, states_of: Callable[[Tensor], Sequence[Tensor]], step_scalars: Mapping[str, Tensor]
    ) -> None:
        """Updates the parameters and their states in place, one multi-tensor apply per combination of dtypes."""
        by_kernel: dict[tuple[Rule, str, str], list[list[Tensor]]] = {}
        rules: dict[int, Rule] = {}  # by rank
        for p in self.members:
            grad, rank = p.grad, len(p.shape)
            assert grad is not None
            if rank not in rules:
                rules[rank] = rule.for_rank(rank)
            by_kernel.setdefault((rules[rank], p.dtype, grad.dtype), []).append([p, grad, *states_of(p)])
        for (rule_key, *dtypes), inputs in by_kernel.items():
            kernel = update_kernel(
                rule_key, self.names, *dtypes, tuple((name, tensor.dtype) for name, tensor in step_scalars.items())
            )
            out = [[p, *states, *([g] if SCALE in step_scalars else [])] for p, g, *states in inputs]
            evaluate_each(kernel.outputs, inputs, self.scalars(kernel.scalars, step_scalars), out=out)
