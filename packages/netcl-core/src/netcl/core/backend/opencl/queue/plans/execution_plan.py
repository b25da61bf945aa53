"""Execution plans: the launches of a call, prepared once and repeated on the tensors of later calls.

Stage: everything that shapes, dtypes and options decide (programs, tiles, sizes, scalars, temporary tensors) has been
chosen; a call only adds its buffers. To choose and to set all arguments again takes more time than the driver needs for
a small launch.

A plan comes from the schedule of an expression (``expressions/run.py``, ``expressions/multi_tensor.py``), or is noted
while the code of a contraction, scan, sort or compaction runs for the first time (``noted_plan.py``). Engines keep
plans in ``engine.plans``, by all that the launches depend on. ``planned_op.py`` turns a plan into the function that
repeats a whole op; ``ops_table.dispatch`` keeps it by the op and its arguments.

A plan holds no tensor of a call, and one plan serves all threads, since a prepared launch lends each call a kernel of
its own (``launch.py``). It is dropped when its engine has too many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from netcl.core.backend.opencl.queue.context import QueueContext


P = TypeVar("P")
PLANS_MAX = 8192  # of an engine


class Made(NamedTuple):
    """A temporary tensor: its number among the tensors of the plan, its shape and dtype."""

    number: int
    shape: tuple[int, ...]
    dtype: str


class Step(NamedTuple):
    """A launch: the function that makes it, the numbers of its tensors, the temporary tensors made before it, and the
    numbers of temporary tensors that end with it.
    """

    run: Callable[..., None]
    tensors: tuple[int, ...]
    made: tuple[Made, ...] = ()
    ended: tuple[int, ...] = ()


class ExecutionPlan(NamedTuple):
    """The launches of a call in order. Its tensors are numbered: first the ones that the call reads, then its results,
    then ``others``: None for each temporary tensor, and tensors that the engine keeps. The last one is the engine's
    flag, if ``raises_flag``.
    """

    steps: tuple[Step, ...]
    others: tuple[Any, ...] = ()
    raises_flag: bool = False

    def run(self, engine: QueueContext, arguments: Sequence[Any]) -> None:
        """Runs the launches on the input tensors and the results."""
        tensors = [*arguments, *self.others]
        if self.raises_flag:
            tensors.append(engine.flag)
        for run, numbers, temporaries, ended in self.steps:
            for number, shape, dtype in temporaries:
                tensors[number] = engine.empty(shape, dtype)
            run(*map(tensors.__getitem__, numbers))
            for number in ended:
                tensors[number] = None


def steps_of(launches: Sequence[tuple[Callable[..., None], tuple[int, ...]]], made: Sequence[Made]) -> tuple[Step, ...]:
    """Returns the steps of launches, with tensors' numbers; temporary ones exist from first launch to last."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for position, (_, numbers) in enumerate(launches):
        for number in numbers:
            first.setdefault(number, position)
            last[number] = position
    return tuple(
        Step(
            run,
            numbers,
            tuple(temporary for temporary in made if first.get(temporary.number) == position),
            tuple(temporary.number for temporary in made if last.get(temporary.number) == position),
        )
        for position, (run, numbers) in enumerate(launches)
    )


def keep(engine: QueueContext, key: Any, plan: P) -> P:
    """Stores ``plan`` in ``engine.plans`` and returns it."""
    if len(engine.plans) >= PLANS_MAX:
        engine.plans.clear()
    engine.plans[key] = plan
    return plan
