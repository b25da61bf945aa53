"""Plans of engine calls: the launches of a contraction, noted in its first run and repeated on other tensors.

A contraction of the same shapes takes the same launches each time, on other buffers. To choose its kernel, tiles and
arguments again, and to set all arguments, takes more time than the driver needs for the launch, so that small products
that are called one by one wait for the host. A plan has a prepared launch for each, and makes what tensors they need on
the way.

A recording is made without plans: there a call may take what an earlier one has left (``matrix_units.planes_of``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np

from netcl.core.backend.opencl.queue.context import PLANS_MAX
from netcl.core.backend.opencl.templates import traits
from netcl.core.backend.recording import open_here

if TYPE_CHECKING:
    from netcl.core.tensor.data import TensorData

__all__ = ["repeated"]


class _Step(NamedTuple):
    """A launch: the function that makes it, the numbers of its tensors, the temporary tensors that are made before
    (number, shape, dtype), and the numbers of temporary tensors that end with it.
    """

    run: Callable[..., None]
    tensors: tuple[int, ...]
    made: tuple[tuple[int, tuple[int, ...], str], ...]
    ended: tuple[int, ...]


def repeated(
    engine: Any, key: Any, compute: Callable[..., None], tensors: tuple[TensorData, ...], planned: bool = True
) -> None:
    """``compute(engine, *tensors)``, whose launches depend on nothing but ``key``: by their plan from the second call
    with that key on, unless ``planned`` is False, a recording is made, or interceptors are at work.

    ``compute`` may ask its engine for ``empty``, ``signals``, ``launch``, ``copy``, ``run`` with out, and ``queue``.
    """
    if not planned or engine.intercepting or open_here(engine) is not None:
        compute(engine, *tensors)
        return
    plan = engine.plans.get(key)
    if plan is None:
        noted = _Noted(engine, tensors)
        compute(noted, *noted.given)
        if len(engine.plans) >= PLANS_MAX:
            engine.plans.clear()
        engine.plans[key] = noted.plan()
        return
    steps, others = plan
    if steps is None:
        compute(engine, *tensors)
        return
    known = [*tensors, *others]
    for run, numbers, made, ended in steps:
        for number, shape, dtype in made:
            known[number] = engine.empty(shape, dtype)
        run(*[known[number] for number in numbers])
        for number in ended:
            known[number] = None


class _Plan(NamedTuple):
    """The launches of a call, None if they cannot be repeated, and the tensors that were not given: None for each that
    is made on the way, and the kept tensors of the engine.
    """

    steps: tuple[_Step, ...] | None
    others: tuple[TensorData | None, ...]


class _Noted:
    """An engine that notes what a call launches. It keeps no tensor alive that is made for the call."""

    def __init__(self, engine: Any, tensors: Sequence[TensorData]) -> None:
        self._engine = engine
        self._traits = traits(engine)
        self.queue = engine.queue
        self.recording = None
        # A tensor that is given twice has two numbers, as the next call may be given two tensors.
        seen: set[int] = set()
        self.given: list[Any] = []
        for tensor in tensors:
            again: Any = tensor
            self.given.append(again._alias(tensor.shape) if id(tensor) in seen else tensor)
            seen.add(id(tensor))
        self._refs: list[Any] = [ref(tensor) for tensor in self.given]
        self._number = {id(tensor): number for number, tensor in enumerate(self.given)}
        self._made: list[tuple[int, tuple[int, ...], str]] = []
        self._kept: dict[int, TensorData] = {}
        self._steps: list[tuple[Callable[..., None], tuple[int, ...]]] = []
        self._known = True  # False once a launch took what is no tensor of the call

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        tensor = self._engine.empty(shape, dtype)
        number = self._number[id(tensor)] = len(self._refs)
        self._refs.append(ref(tensor))
        self._made.append((number, tuple(shape), dtype))
        return tensor

    def signals(self, count: int) -> Any:
        tensor = self._engine.signals(count)
        if id(tensor) not in self._number:
            number = self._number[id(tensor)] = len(self._refs)
            self._refs.append(ref(tensor))
            self._kept[number] = tensor
        return tensor

    def launch(
        self,
        source: str,
        kernel_name: str,
        global_size: tuple[int, ...],
        local_size: tuple[int, ...] | None,
        args: Sequence[Any],
    ) -> None:
        self._engine.launch(source, kernel_name, global_size, local_size, args)
        if 0 not in global_size:
            fixed = [arg if isinstance(arg, np.generic) else None for arg in args]
            given = [arg for arg, value in zip(args, fixed) if value is None]
            prepared = self._engine.launcher.prepare(source, kernel_name, global_size, local_size, fixed)
            self._note(prepared, given)

    def copy(self, source: TensorData, out: TensorData, **block: Any) -> None:
        self._engine.kernel("copy")(self, source, out, **block)

    def run(self, outputs: Any, inputs: Sequence[TensorData], *, out: Sequence[TensorData]) -> None:
        count = len(inputs)

        def again(*tensors: Any) -> None:
            tensors[0].engine.run(outputs, tensors[:count], out=tensors[count:])

        again(*inputs, *out)
        self._note(again, [*inputs, *out])

    def _note(self, run: Callable[..., None], given: Sequence[Any]) -> None:
        numbers = []
        for value in given:
            number = self._number.get(id(value), -1)
            self._known = self._known and number >= 0 and self._refs[number]() is value
            numbers.append(number)
        self._steps.append((run, tuple(numbers)))

    def plan(self) -> _Plan:
        """The plan of what was launched."""
        if not self._known:
            return _Plan(None, ())
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for at, (_, numbers) in enumerate(self._steps):
            for number in numbers:
                first.setdefault(number, at)
                last[number] = at
        steps = tuple(
            _Step(
                run,
                numbers,
                tuple(one for one in self._made if first.get(one[0]) == at),
                tuple(number for number, *_ in self._made if last.get(number) == at),
            )
            for at, (run, numbers) in enumerate(self._steps)
        )
        return _Plan(steps, tuple(self._kept.get(number) for number in range(len(self.given), len(self._refs))))
