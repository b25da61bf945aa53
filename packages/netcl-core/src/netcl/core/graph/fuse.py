"""Fuses the calls of a log: calls of expressions become one program, or the epilogue of a contraction.

Calls keep the order of their data dependences. A call is fused into the group of an earlier call if no third one must
run between the two, and its expressions are put into the region of the group (``legality.py``). A replay of a captured
step must have the bits of the calls one by one, so there inexact functions are fused only if the kernel walks the same
elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from netcl.core.dtypes import itemsize
from netcl.core.expr import Reduce
from netcl.core.expr.rewrite import walk
from netcl.core.graph.call import (
    LoggedCall,
    Ref,
    bound_call,
    is_expression,
    run_arguments,
    tensors_in,
    without_dead_calls,
)
from netcl.core.graph.epilogues import is_contraction, with_epilogue
from netcl.core.graph.legality import alias, extend, has_same_bits, makes_sincos, pays, wide
from netcl.core.graph.region import Fused, Region, fuse
from netcl.core.graph.schedule import PlannedCall, joined_label, scheduled
from netcl.core.ops_table.program import Bound

if TYPE_CHECKING:
    from netcl.core.expr.schedule import Target

_CANDIDATES = 4  # groups that are tried for a call
_LARGE = 1 << 20  # bytes of a value that is computed a second time, if the step does so, in place of being kept


class Traced(NamedTuple):
    """The rules of a traced function's calls, on an engine that is the ``host`` or not.

    ``may_fuse(before, after, alone)`` is given the region before and after a call, and one of the call alone.
    ``kept(region, needed)`` returns the results that are stored if some are needed. ``is_last_use(program, slot)`` is
    True if the gradient of a program does not need that input. ``relaxed``: programs are built with fast math, of
    single calls too.
    """

    host: bool
    relaxed: bool
    may_fuse: Callable[[Region, Region, Region], bool]
    kept: Callable[[Region, tuple[int, ...]], tuple[int, ...]]
    is_last_use: Callable[[Fused, int], bool]


class Rules(NamedTuple):
    """The ``target`` of kernels, with which sums keep their order, and the rules of a traced function."""

    target: Target | None
    traced: Traced | None = None


@dataclass(eq=False)
class _Group:
    """Calls that are fused; ``before`` has a bit for each group that must run earlier."""

    calls: list[int]
    before: int
    region: Region | None = None
    contraction: LoggedCall | None = None  # with its epilogue; of a traced function as it was made
    program: Fused | None = None
    labels: list[str] = field(default_factory=list)  # of calls that it has absorbed
    values: dict[tuple[int, int], int] = field(default_factory=dict)  # (number, version) to value of the region
    inputs: list[Ref] = field(default_factory=list)
    scalars: list[Any] = field(default_factory=list)
    made: dict[tuple[int, int], tuple[Ref, bool]] = field(default_factory=dict)


class Fusion:
    """The groups of ``calls``; ``live`` are numbers needed afterwards, ``outside`` those written for others."""

    def __init__(self, calls: Sequence[LoggedCall], live: set[int], rules: Rules, outside: Iterable[int] = ()) -> None:
        self._calls = calls = without_dead_calls(calls, {*live, *outside})
        self._rules = rules
        self._live = live
        self._groups: list[_Group] = []
        self._of: list[int] = []  # by call: its group
        self._home: dict[tuple[int, int], int] = {}  # from a result to the group that makes it
        self._readers: dict[tuple[int, int], list[int]] = {}
        for at, call in enumerate(calls):
            for key in call.reads:
                self._readers.setdefault(key, []).append(at)
        self._again = set() if rules.traced else _repeated(calls)
        self._writer = {key: at for at, call in enumerate(calls) for key in call.makes}
        self._last_write: dict[int, int] = {}  # by number: the group of the last write, and of the reads since
        self._reads_since: dict[int, set[int]] = {}
        for at, call in enumerate(calls):
            self._add(at, call)
        for number in range(len(self._groups)):
            self._fuse_epilogue(number)

    # -- order ---------------------------------------------------------------------------------------------------------

    def _needs(self, call: LoggedCall) -> set[int]:
        """Returns the groups that must run before a call."""
        needed = {self._last_write[number] for number, _ in call.reads if number in self._last_write}
        for number in call.writes:
            if number in self._last_write:
                needed.add(self._last_write[number])
            needed |= self._reads_since.get(number, set())
        return needed

    def _before(self, groups: Iterable[int]) -> int:
        bits = 0
        for group in groups:
            bits |= self._groups[group].before | 1 << group
        return bits

    def _add(self, at: int, call: LoggedCall) -> None:
        needs = self._needs(call)
        home = None
        if at in self._again:  # in its place, or the value would be in memory from the first time on
            needs |= {self._of[at - 1]}
        elif call.method == "reshape":
            home = self._home[next(iter(call.reads))]
            self._extend(home, call)
        elif is_expression(call):
            home = self._fuse_into(at, call, needs)
        if home is None:
            home = len(self._groups)
            self._groups.append(_Group([at], self._before(needs)))
            if is_expression(call):
                self._extend(home, call)
        else:
            group = self._groups[home]
            group.calls.append(at)
            more = self._before(needs - {home})
            if more & ~group.before:
                for other in self._groups:
                    if other is group or other.before >> home & 1:
                        other.before |= more
        self._of.append(home)
        for number, _ in call.reads:
            self._reads_since.setdefault(number, set()).add(home)
        for number in call.writes:
            self._last_write[number] = home
            self._reads_since[number] = set()

    # -- fusion --------------------------------------------------------------------------------------------------------

    def _fuse_into(self, at: int, call: LoggedCall, needs: set[int]) -> int | None:
        """Returns the group that the call was fused into, else None."""
        producers = {self._home[key] for key in call.reads if key in self._home}
        beside = {self._of[reader] for key in call.reads for reader in self._readers.get(key, ()) if reader < at}
        tried = sorted(producers, reverse=True) + sorted(beside - producers, reverse=True)
        if self._rules.traced:  # unrelated calls on one space are one launch
            tried += [group for group in range(len(self._groups))[-1:] if group not in tried]
        for candidate in tried[:_CANDIDATES]:
            group = self._groups[candidate]
            if group.region is None or any(self._groups[n].before >> candidate & 1 for n in needs - {candidate}):
                continue
            if self._fits(group, call, bound_call(call)) and self._extend(candidate, call):
                return candidate
        return None

    def _fits(self, group: _Group, call: LoggedCall, ready: Bound) -> bool:
        """True if the call passes the checks that ``extend`` does not make: shapes, and writes in place."""
        region = group.region
        assert region is not None
        for ref in ready.inputs:
            value = group.values.get((ref.number, ref.version))
            if value is None or value in region.inputs:
                continue
            if wide(region.values[value].shape) != wide(ref.shape):
                return False
        written = {number for number, _ in group.made} | call.writes
        placed = [ref for ref, there in group.made.values() if there] + [out for out in run_arguments(call)[4] if out]
        if not placed:
            return True
        if {ref.number for ref in placed} & {number for number, _ in group.made} & call.writes:
            return False
        # In place each element is read and written by the work-item that owns it, or a kernel would see its own writes.
        spaces = {wide(ref.shape) for ref in (*group.inputs, *ready.inputs) if ref.number in written}
        spaces |= {wide(ref.shape) for ref in placed} | {wide(shape) for shape in ready.program.shapes}
        spaces |= {wide(ref.shape) for ref, _ in group.made.values()}
        reducing = any(isinstance(n, Reduce) for n in walk(ready.program.outputs)) or region.reduced is not None
        return len(spaces) == 1 and not reducing

    def _extend(self, home: int, call: LoggedCall) -> bool:
        """Puts a call into a group's region; False, with nothing changed, if it does not fit or does not pay."""
        group = self._groups[home]
        before = group.region or Region()
        if call.method == "reshape":
            (source, shape), ready = call.args, None
            after = alias(before, group.values[source.number, source.version], shape, call.recorded, call.node)
        else:
            ready = bound_call(call)
            after = self._extended(group, before, call, ready)
        if after is None:
            return False
        group.region = after
        if ready is not None:
            group.scalars.extend(ready.scalars.values())
        outs = run_arguments(call)[4] if call.method == "run" else ()
        for k, (index, ref) in enumerate(zip(after.last_results, tensors_in(call.results))):
            group.values[ref.number, ref.version] = index
            group.made[ref.number, ref.version] = (ref, bool(outs) and outs[k] is not None)
            self._home[ref.number, ref.version] = home
        return True

    def _extended(self, group: _Group, before: Region, call: LoggedCall, ready: Bound) -> Region | None:
        """Returns a group's region after a call of expressions, with the new inputs in the group; None if the call does
        not fit or does not pay.
        """
        fresh: dict[tuple[int, int, tuple[int, ...]], tuple[int, bool]] = {}
        refs: list[Any] = []
        for at, ref in enumerate(ready.inputs):
            value = group.values.get((ref.number, ref.version))
            if value is not None and (value not in before.inputs or before.values[value].shape == ref.shape):
                refs.append(value)
            else:
                wants = bool(call.requires) and call.requires[at]
                refs.append(fresh.setdefault((ref.number, ref.version, ref.shape), (len(fresh), wants)))
        target, traced = self._rules
        host = traced is not None and traced.host
        after = extend(before, call.row, ready, refs, call.recorded, call.node, host, target)
        if after is None or (before.stages and not self._may_fuse(before, after, call, ready)):
            return None
        first = len(before.inputs)
        for place, (number, version, shape) in enumerate(fresh):
            index = after.inputs[first + place]
            group.values.setdefault((number, version), index)
            group.inputs.append(Ref(number, version, shape, after.values[index].dtype))
        return after

    def _may_fuse(self, before: Region, after: Region, call: LoggedCall, ready: Bound) -> bool:
        traced = self._rules.traced
        if makes_sincos(before, after):
            return False
        if traced is None:
            return pays(before, after, ready) and has_same_bits(after)
        fresh = list(enumerate(call.requires))
        alone = extend(Region(), call.row, ready, fresh, call.recorded, call.node, False)
        return alone is None or traced.may_fuse(before, after, alone)

    # -- epilogues -----------------------------------------------------------------------------------------------------

    def _fuse_epilogue(self, number: int) -> None:
        """Makes the group ``number`` the epilogue of a contraction whose result it alone reads, if it can be."""
        group = self._groups[number]
        needed = self._needed_of(group)
        if group.region is None or len(needed) != 1 or any(there for _, there in group.made.values()):
            return
        value, traced = group.values[needed[0]], self._rules.traced
        scalars = dict(zip(group.region.scalars, group.scalars))
        for slot, ref in enumerate(group.inputs):
            at = self._writer.get((ref.number, ref.version))
            if at is None or ref.number in self._live or not is_contraction(self._calls[at]):
                continue
            home, call = self._of[at], self._calls[at]
            readers = {self._of[reader] for reader in self._readers[ref.number, ref.version]}
            if readers != {number} or self._between(home, number) or self._groups[home].contraction is not None:
                continue
            (made,), exact = (group.made[key][0] for key in needed), traced is None or not traced.relaxed
            with_it = with_epilogue(call, group.region, group.inputs, group.region.values[value], made, scalars, exact)
            if with_it is not None and (traced is None or self._is_last_use(group, value, slot)):
                self._absorb(number, home, with_it if traced is None else call)
                return

    def _is_last_use(self, group: _Group, value: int, slot: int) -> bool:
        """True if the gradient needs neither the input ``slot`` of a group, nor other values than ``value``."""
        traced, program = self._rules.traced, self._program(group, (value,))
        assert traced is not None
        alone = len(program.results) == 1 and program.arranged[slot] is None
        return alone and traced.is_last_use(program, slot)

    def _between(self, first: int, last: int) -> bool:
        """True if a group must run after ``first`` and before ``last``."""
        before = self._groups[last].before
        return any(before >> n & 1 and group.before >> first & 1 for n, group in enumerate(self._groups) if n != first)

    def _absorb(self, number: int, home: int, made: LoggedCall) -> None:
        """Makes the contraction of group ``home`` run, as ``made``, in the position of group ``number``."""
        group, gone = self._groups[number], self._groups[home]
        group.contraction = made
        group.labels += [*gone.labels, *(self._calls[at].label for at in gone.calls)]
        group.before = (group.before | gone.before) & ~(1 << home)
        for other in self._groups:
            if other.before >> home & 1:
                other.before = (other.before | 1 << number | group.before) & ~(1 << home)
        gone.calls, gone.before, gone.region, gone.made = [], 0, None, {}

    # -- the result ----------------------------------------------------------------------------------------------------

    def steps(self) -> list[list[PlannedCall]]:
        """Returns the groups in an order that their reads and writes allow."""
        there = [number for number, group in enumerate(self._groups) if group.calls]
        return scheduled(
            {number: self._step(self._groups[number]) for number in there},
            {number: self._groups[number].before for number in there},
            {number: self._groups[number].calls[-1] for number in there},
            merges=self._rules.traced is None,
        )

    def _needed_of(self, group: _Group) -> list[tuple[int, int]]:
        """Returns the results of a group that are read elsewhere, or live after the step."""
        members = set(group.calls)
        return [
            key
            for key, (ref, in_place) in group.made.items()
            if in_place
            or ref.number in self._live
            or any(reader not in members for reader in self._readers.get(key, ()))
        ]

    def _step(self, group: _Group) -> PlannedCall:
        traced = self._rules.traced
        call = None if traced else group.contraction
        label = joined_label([*group.labels, *(self._calls[at].label for at in group.calls)])
        if call is None and (group.region is None or (len(group.calls) == 1 and not (traced and traced.relaxed))):
            call = self._calls[group.calls[0]]
        if call is not None and traced is None:
            return PlannedCall(frozenset(number for number, _ in call.reads), call.writes, call, label=label)
        region = group.region
        if region is None:
            assert call is not None
            reads = frozenset(number for number, _ in call.reads)
            return PlannedCall(reads, call.writes, call, results=((call.results, False),))
        needed = self._needed_of(group)
        first: dict[int, tuple[int, int]] = {}  # by value: the first result on its storage
        for key in needed:
            first.setdefault(_root(region, group.values[key]), key)
        sources = [first[_root(region, group.values[key])] for key in needed]
        numbers = tuple(group.values[key] for key in first.values())
        refs = tuple(group.inputs)
        contraction = group.contraction
        more = () if contraction is None else contraction.reads
        return PlannedCall(
            frozenset((*(ref.number for ref in refs), *(number for number, _ in more))),
            frozenset(group.made[key][0].number for key in needed),
            call,
            self._program(group, numbers),
            refs,
            dict(zip(region.scalars, group.scalars)),
            tuple(group.made[key] for key in first.values()),
            tuple((group.made[key][0], group.made[source][0]) for key, source in zip(needed, sources) if key != source),
            label,
            contraction=contraction,
        )

    def _program(self, group: _Group, numbers: tuple[int, ...]) -> Fused:
        """Returns the program of a group, which is made once, for the values ``numbers``."""
        if group.program is None:
            traced = self._rules.traced
            assert group.region is not None
            if traced is None:
                group.program = fuse(group.region, numbers)
            else:
                group.program = fuse(group.region, traced.kept(group.region, numbers), traced.relaxed)
        return group.program


def _root(region: Region, value: int) -> int:
    """Returns the value that a value shares its storage with, as a reshape of it."""
    alias = region.values[value].alias
    return value if alias is None else _root(region, alias)


def _repeated(calls: Sequence[LoggedCall]) -> set[int]:
    """Returns calls that compute a large value of an earlier call again, as gradients do with what was freed."""
    known: set[Any] = set()
    repeated = set()
    for at, call in enumerate(calls):
        key = _value_of(call)
        if key in known:
            repeated.add(at)
        elif key is not None:
            known.add(key)
    return repeated


def _value_of(call: LoggedCall) -> Any:
    """Returns a key of the value that a call of an expression or a copy computes, if it is large; else None."""
    if is_expression(call):
        outputs, inputs, scalars, shapes, out = run_arguments(call)
        made = tuple(tensors_in(call.results))
        key: Any = (outputs, inputs, tuple(scalars.items()), shapes)
        plain = not any(out)
    else:
        made = call.args[1:2]
        key = (call.args[:1], tuple(sorted(call.kwargs.items()))) if call.method == "copy" else ()
        plain = call.method == "copy" and len(call.args) == 2
    return key if plain and any(prod(ref.shape) * itemsize(ref.dtype) >= _LARGE for ref in made) else None
