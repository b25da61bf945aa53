"""Casts between float32 and a half type in a captured step, as part of the contraction that reads or writes the tensor.

Under autocast a product reads casts of parameters, and their gradients are cast back: two passes over each parameter. A
kernel that packs its operands rounds them on the way, so the contraction is given the float32 tensor itself. Kernels of
CPUs and GPUs write their result, rounded, as float32. The numbers are the same. On CPUs casts of small tensors stay:
they are one launch together, and the kernels read what they make in place. On GPUs that launch takes as long as it has
tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from netcl.core.capture.casts import HALVES, Cast, cast_of
from netcl.core.dtypes import canonical
from netcl.core.graph.call import LoggedCall, Ref, is_expression, tensors_in
from netcl.core.graph.schedule import SMALL

_CONTRACTIONS = ("matmul", "conv")


def with_float32_operands(
    engine: Any, calls: Sequence[LoggedCall], live: Iterable[int], outside: Iterable[int]
) -> list[LoggedCall]:
    """Returns the calls with contractions that read large tensors from outside of the step as float32, and write as
    float32 what is live, small, or read by no expression. Casts that they made dead are still there, except casts of
    results.
    """
    roles = getattr(engine, "float32_roles", None)
    if roles is None:
        return list(calls)
    rewriting = _Rewriting(calls, set(live), set(outside), SMALL if engine.target.is_cpu else 0)
    rewritten = [rewriting.contraction(at, call, roles) for at, call in enumerate(calls)]
    return [call for at, call in enumerate(rewritten) if at not in rewriting.replaced]


class _Rewriting:
    def __init__(self, calls: Sequence[LoggedCall], live: set[int], outside: set[int], small: int) -> None:
        self._calls = calls
        self._live = live
        self._outside = outside
        self._small = small
        self._writes: dict[int, list[int]] = {}  # by storage: the numbers of the calls that write it
        self._readers: dict[tuple[int, int], list[int]] = {}
        self._casts: dict[tuple[int, int], Cast] = {}  # to a half type, by their result
        self._back: dict[tuple[int, int], Cast] = {}  # to float32, by their source
        self.replaced: set[int] = set()  # casts with results that contractions write
        for at, call in enumerate(calls):
            for number in call.writes:
                self._writes.setdefault(number, []).append(at)
            for key in call.reads:
                self._readers.setdefault(key, []).append(at)
            cast_call = cast_of(at, call)
            if cast_call is not None and cast_call.result.dtype in HALVES:
                self._casts[cast_call.result.number, cast_call.result.version] = cast_call
            elif cast_call is not None:
                self._back[cast_call.source.number, cast_call.source.version] = cast_call

    def contraction(self, at: int, call: LoggedCall, roles: Any) -> LoggedCall:
        """Returns the call, or one on float32 tensors if it is a contraction in a half type and has such tensors."""
        result = call.results
        if call.method not in _CONTRACTIONS or not isinstance(result, Ref) or result.dtype not in HALVES:
            return call
        if call.kept or call.kwargs.get("out") is not None:
            return call
        first = len(call.args) - 2  # before the operands: the direction of a convolution
        sources = [self._source(at, ref) for ref in call.args[first:]]
        wide = self._wanted(at, result)
        if sources == [None, None] and wide is None:
            return call
        half = canonical(result.dtype)
        a, b, out = roles(call.method, call.args, half, call.kwargs)
        operands = [new if takes and new else old for old, new, takes in zip(call.args[first:], sources, (a, b))]
        wide = wide if out else None
        if wide is not None:
            self.replaced.add(self._back[result.number, result.version].at)
        if operands == list(call.args[first:]) and wide is None:
            return call
        named = {**call.kwargs, "half": half, "wide": wide is not None}
        args = (*call.args[:first], *operands)
        reads = frozenset((ref.number, ref.version) for ref in tensors_in((args, call.kwargs)))
        made = result if wide is None else wide._replace(shape=result.shape)
        writes = frozenset((made.number,))
        return replace(call, args=args, kwargs=named, results=made, reads=reads, writes=writes)

    def _source(self, at: int, ref: Any) -> Ref | None:
        """Returns the large tensor from outside that ``ref`` is a cast of, if call ``at`` can read it: nothing was
        written since.
        """
        cast_call = self._casts.get((ref.number, ref.version)) if isinstance(ref, Ref) else None
        if cast_call is None or cast_call.source.number not in self._outside or prod(ref.shape) <= self._small:
            return None
        if any(cast_call.at < write < at for write in self._writes.get(cast_call.source.number, ())):
            return None
        return cast_call.source._replace(shape=ref.shape)

    def _wanted(self, at: int, result: Ref) -> Ref | None:
        """Returns the float32 cast of a result that nothing else reads, if the cast makes its tensor, and no expression
        could read the large half type in place of it.
        """
        key = result.number, result.version
        cast_call = self._back.get(key)
        if cast_call is None or result.number in self._live or self._readers.get(key) != [cast_call.at]:
            return None
        made = cast_call.result
        own = made.number not in self._outside and self._writes[made.number][0] == cast_call.at
        readers = self._readers.get((made.number, made.version), ())
        alone = made.number in self._live or not any(is_expression(self._calls[reader]) for reader in readers)
        return made if own and (alone or prod(made.shape) <= SMALL) else None


__all__ = ["with_float32_operands"]
