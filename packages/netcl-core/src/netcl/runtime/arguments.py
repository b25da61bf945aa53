"""Arguments of captured steps: the places of tensors in them, what a replay writes into them in place, and the memory
that they share.

A recorded step reads and writes tensors of its own in the place of its arguments. The memory of two of these, or of one
and of a tensor from outside, is never the same. So a replay refuses arguments with shared memory that the step writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netcl.core.capture.call_log import CallLog
from netcl.core.errors import CaptureError
from netcl.core.graph.call import tensors_in
from netcl.core.ops_table.dispatch import assign
from netcl.core.storage.views import check_writable, geometry_of, root_of
from netcl.core.tensor import Tensor


def has_inner_tensors(value: Any) -> bool:
    """True for a list, tuple or dict with tensors in it."""
    return not isinstance(value, Tensor) and any(True for _ in tensors_in(value))


def leaves(template: Any, value: Any) -> Iterator[Any]:
    """Yields the tensors and other values of ``value``; raises CaptureError if it is not nested as ``template`` is."""
    if not has_inner_tensors(template):
        yield value
        return
    keyed = isinstance(template, dict)
    if type(value) is not type(template) or len(value) != len(template) or (keyed and list(value) != list(template)):
        expected = f"the {type(template).__name__} of {len(template)} values that was captured"
        raise CaptureError(f"replay: expected {expected}, got {value!r}; capture again for other arguments")
    for part, inner in zip(template.values(), value.values()) if keyed else zip(template, value):
        yield from leaves(part, inner)


def _reach(tensor: Tensor) -> tuple[float, float]:
    """Returns the first and the last element of its memory that ``tensor`` shows."""
    geometry = geometry_of(tensor)
    if geometry is None:
        return float("-inf"), float("inf")
    ways = [(size - 1) * step for size, step in zip(geometry.shape, geometry.strides)]
    return geometry.offset + sum(min(way, 0) for way in ways), geometry.offset + sum(max(way, 0) for way in ways)


def _overlap(x: Tensor, y: Tensor) -> bool:
    (first, last), (begin, end) = _reach(x), _reach(y)
    return first <= end and begin <= last


class Arguments:
    """The tensors that a step was recorded with in the place of its arguments, by position.

    ``versions`` are those before the step. ``graded`` are the arguments that the step made a gradient for, with True if
    it has dropped their gradient first. ``pool`` has the memory of the recording. ``makes_gradients``: the step has
    changed gradients.
    """

    def __init__(
        self,
        tensors: Mapping[int, Tensor],
        versions: Mapping[int, int],
        graded: Mapping[int, bool],
        calls: CallLog,
        pool: Any,
        makes_gradients: bool,
    ) -> None:
        self._tensors, self._graded, self._pool = tensors, tuple(graded), pool
        self._cleared = {at for at, cleared in graded.items() if cleared}
        numbers = {at: calls.number(tensor) for at, tensor in tensors.items()}
        outside = {number: tensor for number, tensor in calls.outside.items() if number not in numbers.values()}
        written = set(calls.written())
        # A kernel of the user is not in the log, but counts its writes.
        self.written: tuple[int, ...] = tuple(
            at for at in tensors if numbers[at] in written or tensors[at]._storage.version != versions[at]
        )
        self._counts = {at: max(tensors[at]._storage.version - versions[at], 1) for at in self.written}
        self._state = {root_of(tensor) for number, tensor in outside.items() if number in written}
        self._used = {root_of(tensor) for tensor in outside.values()} if self.written else set()
        self._refuses_grad = {at for at in tensors if makes_gradients and not tensors[at].requires_grad}
        self._special = bool(self.written or self._graded)

    def check(self, values: Sequence[Any], call: str = "replay") -> None:
        """Raises CaptureError if a replay with ``values`` would not be the call with them."""
        for at in self._tensors:
            value = values[at]
            if not isinstance(value, Tensor):
                continue
            if root_of(value) in self._state:
                raise CaptureError(
                    f"{call}: argument {at} shares memory with a tensor that the step writes, and would be read as it "
                    "was before; give a clone() of it, or use that tensor in the step without an argument"
                )
            if value.requires_grad and at in self._refuses_grad:
                raise CaptureError(
                    f"{call}: argument {at} requires grad, and did not in the capture; give its detach(), or capture "
                    "again"
                )
        if self._special:
            self._check_graded(values, call)
            self._check_written(values, call)

    def check_one(self, at: int, value: Tensor) -> None:
        """Raises CaptureError if the argument at ``at`` shares memory with what the step writes, or is to have a
        gradient.
        """
        if root_of(value) in self._state:
            raise CaptureError(f"replay: argument {at} shares memory with a tensor that the step writes")
        if value.requires_grad and at in self._refuses_grad:
            raise CaptureError(f"replay: argument {at} requires grad, and did not in the capture")

    def _check_graded(self, values: Sequence[Any], call: str) -> None:
        for at in self._graded:
            value = values[at]
            free = at in self._cleared or getattr(value, "grad", None) is None
            if isinstance(value, Tensor) and not (value.requires_grad and value.grad_fn is None and free):
                raise CaptureError(
                    f"{call}: the step makes the gradient of argument {at}, which must be a leaf that requires grad "
                    "and has no gradient; write x = x.detach().requires_grad_(), or x.grad = None, before the call"
                )

    def _check_written(self, values: Sequence[Any], call: str) -> None:
        tensors = {at: values[at] for at in self._tensors if isinstance(values[at], Tensor)}
        for at in self.written:
            if at not in tensors:
                continue
            value, handle = tensors[at], tensors[at].pool_handle
            check_writable(value)
            same = [other for place, other in tensors.items() if place != at and root_of(other) is root_of(value)]
            if any(_overlap(value, other) for other in same):
                raise CaptureError(
                    f"{call}: the step writes argument {at}, which shares memory with another argument; give a clone() "
                    "for one of them"
                )
            if root_of(value) in self._used or (handle is not None and handle.pool is self._pool):
                raise CaptureError(
                    f"{call}: the step writes argument {at}, which shares memory with a tensor that the step uses "
                    "otherwise; give a clone() of it, or use that tensor in the step without an argument"
                )

    def write_back(self, values: Sequence[Any]) -> None:
        """Writes into ``values`` what a replay has written in their place; a host array stays as it was."""
        for at in self.written:
            value, tensor = values[at], self._tensors[at]
            if isinstance(value, Tensor):
                root = root_of(value)
                version = root.version
                if value.engine is tensor.engine:
                    assign(value, tensor)
                else:
                    value.write(tensor)
                root.version = version + self._counts[at]

    def set_gradients(self, values: Sequence[Any], gradients: Sequence[Tensor]) -> None:
        """Gives ``values`` the ``gradients`` that a replay has made for them."""
        for at, gradient in zip(self._graded, gradients):
            if isinstance(values[at], Tensor):
                values[at].grad = gradient
