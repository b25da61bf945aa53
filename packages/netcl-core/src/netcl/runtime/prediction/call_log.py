"""The log of a period: its calls in order, with the tensors that they make and use by number."""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import Any

from netcl.core.ops_table import modes
from netcl.core.ops_table.hook_stack import Carried, hooks_of_thread
from netcl.core.ops_table.table import OpRow
from netcl.core.process.grad_mode import state
from netcl.core.tensor import Tensor, gradients, in_place
from netcl.core.tensor.data import TensorData
from netcl.core.tensor.generator import default_generator
from netcl.core.tensor.views import Geometry, ViewStorage, geometry_of, root_of
from netcl.runtime.prediction.calls import Call, Made, Outside, Slot, Unpredictable, described, run_call
from netcl.runtime.prediction.program_arrays import is_of_the_program

__all__ = ["PeriodLog", "Result", "block_of", "check_modes", "ends_here"]

_CALLS_MAX = 20_000
_AUTOCAST = 1  # the rank of the only hooks below the predictor that do not see the calls themselves


def check_modes(hooks: tuple[tuple[int, Any], ...]) -> str | None:
    """Returns why calls of this thread cannot be predicted now; None if they can."""
    if any(rank != _AUTOCAST for rank, _ in hooks):
        return "a hook on ops"
    if is_special():
        return "a tape, a trace, hooks on saved tensors, inference, or anomaly detection"
    return None


def is_special() -> bool:
    """Returns True if ops do more in this thread than to record a graph."""
    return state.tape is not None or state.trace is not None or state.anomaly or state.inference or state.packs


def block_of(hooks: tuple[tuple[int, Any], ...]) -> Any:
    """Returns the autocast hook among the hooks below the predictor, None for none."""
    return hooks[0][1] if hooks else None


_freed: weakref.WeakSet[Any] = weakref.WeakSet()  # nodes of which all nodes below are freed


def ends_here(tensor: Any) -> bool:
    """Returns True if no backward pass can go beyond ``tensor``: it is a leaf, or its graph is freed."""
    node = tensor.grad_fn if tensor._requires_grad else None
    if node is None or node in _freed:
        return True
    registered = gradients.registered()
    if registered is None or not registered.is_freed(tensor):
        return False
    _freed.add(node)
    return True


class Result:
    """A tensor of a period that is computed for the program: its slot.

    If it ``outlives`` the period, ``node`` is its node in the graph, which has been freed, ``version`` the number of
    writes in place into it, and ``base`` its place among the views of a tensor that is gone; else it is read there. An
    alias, or a view, is on the memory of the result of slot ``same``; a view has a ``geometry``. ``of``: the number
    from outside of the leaf that has it as its gradient at the end.
    """

    def __init__(
        self,
        slot: int,
        node: Any,
        version: int = 0,
        outlives: bool = True,
        base: Any = None,
        same: int | None = None,
        of: int | None = None,
        geometry: Geometry | None = None,
    ) -> None:
        self.slot: int = slot
        self.node: Any = node
        self.version: int = version
        self.outlives: bool = outlives
        self.base: Any = base
        self.same: int | None = same
        self.of: int | None = of
        self.geometry: Geometry | None = geometry


class PeriodLog:
    """Runs the calls of one period on ``engine`` and writes them down. It keeps no tensor alive that a call makes.

    ``outside`` are the tensors from outside in the order of their first use, ``shared`` those on arrays of the program,
    ``blocks`` the modes of each autocast block, ``reads`` the slots that the host has read before each call of a
    number. ``close()`` gives the tensors that are still there.
    """

    def __init__(self, engine: Any) -> None:
        self.calls: list[Call] = []
        self.outside: list[Any] = []
        self.blocks: list[Any] = []
        self.shared: set[int] = set()
        self.reads: dict[int, set[int]] = {}
        self.engine: Any = engine
        self._block: Any = self
        self._outside: dict[int, int] = {}
        self._memory: list[tuple[Any, Any]] = []  # storage and shape of the tensors from outside before the first call
        self._slots: dict[int, tuple[weakref.ref[Any], Made]] = {}
        self._made: list[tuple[weakref.ref[Any], Made]] = []  # by slot
        self._storages: dict[int, weakref.ref[Any]] = {}
        self._grads: dict[int, weakref.ref[Any] | None] = {}  # of tensors from outside, as they were at first
        self._last: tuple[int, list[Result]] | None = (
            None  # the number of calls before the last read, and what is there
        )
        self._passed = False  # a backward pass has made gradients

    def run(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], record: bool | None) -> Any:
        """Runs a call, which the caller has hidden from the predictor, and logs it.

        Raises Unpredictable, before the call, for a call that cannot be predicted.
        """
        if len(self.calls) >= _CALLS_MAX:
            raise Unpredictable(f"more than {_CALLS_MAX} calls")
        hooks = hooks_of_thread.state[1]
        cause = check_modes(hooks)
        if cause is not None:
            raise Unpredictable(cause)
        if block_of(hooks) is not self._block:
            self._block = block_of(hooks)
            self.blocks.append(modes.current())
        call = Call(
            target, record, described(args, self._reference), described(kwargs, self._reference), state.enabled,
            len(self.blocks) - 1,
        )  # fmt: skip
        hooked = getattr(target, "hooked", None)
        if hooked is not None:
            call.hooked = tuple((at, hooked(leaf)) for at, leaf in enumerate(self.outside) if leaf._requires_grad)
        versions, drawn = [tensor._storage.version for tensor in self.outside], default_generator.offset
        earlier = [] if isinstance(target, OpRow) and "out" not in kwargs else self._alive()
        counts = [tensor._storage.version for _, tensor in earlier]
        result = run_call(target, args, kwargs, record)
        call.draws = default_generator.offset != drawn
        made: list[Made] = []
        try:
            of = self._of(target, call)
            call.result = described(result, lambda tensor: self._result(tensor, made, of))
        except Unpredictable as unpredictable:
            raise Broken(str(unpredictable), result) from None
        if not isinstance(result, (TensorData, tuple, list, type(None), Carried)):
            raise Broken(f"a call returns a {type(result).__name__}", result)
        call.made = tuple(made)
        call.written = tuple(at for at, version in enumerate(versions) if self.outside[at]._storage.version != version)
        call.rewritten = tuple(
            slot for (slot, tensor), count in zip(earlier, counts) if tensor._storage.version != count
        )
        if any(type(self.outside[at]._storage) is ViewStorage for at in call.written):
            raise Broken("a view from outside is written", result)
        self.calls.append(call)
        return result

    def _alive(self) -> list[tuple[int, Any]]:
        """Returns slot and tensor of each result that is still there."""
        return [
            (made.slot, tensor) for ref, made in self._made
            if made.of is None and made.engine is not None and (tensor := ref()) is not None
        ]  # fmt: skip

    def _of(self, target: Any, call: Call) -> int | None:
        """Returns for a call that reads a gradient from before the period the number of the tensor that has it."""
        self._passed = self._passed or getattr(target, "makes_gradients", False)
        if target is in_place.set_gradient.__wrapped__ and type(call.args[1]) is Outside:  # type: ignore[attr-defined]
            raise Unpredictable("a gradient is set to a tensor from outside")
        if target is not in_place.read_gradient.__wrapped__ or type(call.args[0]) is not Outside:  # type: ignore[attr-defined]
            return None
        number = call.args[0].number
        if number not in self._grads:
            raise Unpredictable("a tensor with a gradient is used by no call before the backward pass")
        before = self._grads[number]
        held = None if before is None else before()
        return number if held is not None and held is gradients.held_by(self.outside[number]) else None

    def note_read(self, tensor: Any) -> None:
        """Notes that the host reads a result of the period, or a tensor that the period has written."""
        if self.makes(tensor):
            slots = [slot for slot, made in self._alive() if made is tensor or made._storage is tensor._storage]
        elif any(root_of(self.outside[at]) is root_of(tensor) for call in self.calls for at in call.written):
            slots = []
        else:
            return
        self.reads.setdefault(len(self.calls), set()).update(slots)
        self._last = None  # until it is known that no call follows
        with suppress(Unpredictable):
            self._last = len(self.calls), self._outliving()

    def makes(self, tensor: Any) -> bool:
        """Returns True if ``tensor`` is on the storage of a result of the period."""
        made = self._storages.get(id(root_of(tensor)))
        return made is not None and made() is root_of(tensor)

    def concerns(self, tensor: Any) -> bool:
        """Returns True if ``tensor`` shares memory with a tensor of the period so far."""
        root = root_of(tensor)
        made = self._storages.get(id(root))
        return (made is not None and made() is root) or any(root_of(other) is root for other in self.outside)

    def _slot(self, tensor: Any) -> Made | None:
        entry = self._slots.get(id(tensor))
        return entry[1] if entry is not None and entry[0]() is tensor else None

    def _reference(self, tensor: Any) -> Slot | Outside:
        made = self._slot(tensor)
        if isinstance(tensor, Carried):
            if made is None:
                raise Unpredictable(f"a {type(tensor).__name__} from outside")
            return Slot(made.slot)
        if made is not None:
            if tensor._requires_grad is not made.requires_grad or tensor.shape != made.shape:
                raise Unpredictable("a result has changed outside of calls")
            return Slot(made.slot)
        number = self._outside.get(id(tensor))
        if number is None:
            root = self._storages.get(id(root_of(tensor)))
            if root is not None and root() is root_of(tensor):
                raise Unpredictable("a tensor on the storage of a result was made outside of calls")
            if not ends_here(tensor):
                raise Unpredictable("a tensor from outside has a graph")
            if tensor.engine is not self.engine:
                raise Unpredictable("tensors of several devices")
            number = self._outside[id(tensor)] = len(self.outside)
            if not self._passed:
                held = gradients.held_by(tensor)
                self._grads[number] = None if held is None else weakref.ref(held)
            if is_of_the_program(tensor):
                if tensor._requires_grad:
                    raise Unpredictable("a leaf is on an array of the program; write nc.tensor(array)")
                self.shared.add(number)
            self.outside.append(tensor)
            self._memory.append((tensor._storage, tensor.shape))
        return Outside(number)

    def _result(self, tensor: Any, made: list[Made], of: int | None) -> Slot | Outside:
        earlier = self._slot(tensor)
        if isinstance(tensor, Carried):
            if earlier is None:
                earlier = Made(len(self._made), None, (), None, False, None, None)
                self._slots[id(tensor)] = weakref.ref(tensor), earlier
                self._made.append(self._slots[id(tensor)])
                made.append(earlier)
            return Slot(earlier.slot)
        if earlier is not None:
            if tensor._requires_grad is not earlier.requires_grad:
                raise Unpredictable("a call makes a tensor require grad")
            return Slot(earlier.slot)
        if id(tensor) in self._outside:
            return Outside(self._outside[id(tensor)])
        if type(tensor) is not Tensor or tensor.engine is not self.engine:
            raise Unpredictable("a result of another class or device")
        geometry = geometry_of(tensor) if type(tensor._storage) is ViewStorage else None
        mark = tensor._grad_fn if type(tensor._grad_fn) is gradients.Mark else None
        fresh = Made(
            len(self._made), tensor.engine, tensor.shape, tensor.dtype, tensor._requires_grad, mark, geometry, of
        )
        if of is not None and (geometry is not None or tensor._requires_grad):
            raise Unpredictable("a gradient from before is a view, or has a graph")
        ref, root = weakref.ref(tensor), root_of(tensor)
        self._slots[id(tensor)] = ref, fresh
        self._made.append((ref, fresh))
        self._storages[id(root)] = weakref.ref(root)
        made.append(fresh)
        return Slot(fresh.slot)

    def close(self) -> list[Result]:
        """Returns the tensors of the period that the program still refers to.

        Raises Unpredictable if one shows elements of a tensor from outside, or has a graph that a backward pass can
        use.
        """
        grads = {id(gradients.held_by(leaf)) for leaf in self.outside if gradients.held_by(leaf) is not None}
        if any(id(tensor) in grads for tensor in self.outside):
            raise Unpredictable("a gradient of before is used by itself")
        if any((t._storage is not s or t.shape != shape) for t, (s, shape) in zip(self.outside, self._memory)):
            raise Unpredictable("a tensor from outside is put on other memory")
        results = self._outliving()
        if self._last is not None and self._last[0] == len(self.calls):  # a read at the end needs the whole period
            known = {result.slot for result in results}
            if not any(result.same is not None for result in (*results, *self._last[1])):
                results += [result for result in self._last[1] if result.slot not in known]
        return results

    def _outliving(self) -> list[Result]:
        """Returns the results of the period so far that the program refers to."""
        grads: dict[int, int] = {}  # by the identity of a gradient: the number of its leaf
        twice: set[int] = set()
        for number, leaf in enumerate(self.outside):
            grad = gradients.held_by(leaf)
            if grad is not None and grads.setdefault(id(grad), number) != number:
                twice.add(id(grad))
        results: list[Result] = []
        roots = {id(root_of(tensor)) for tensor in self.outside}
        before = [ref() for ref, made in self._made if made.of is not None]
        roots.update(id(root_of(tensor)) for tensor in before if tensor is not None)
        leaders: dict[int, int] = {}  # by memory: the slot of its first result
        for slot, (ref, made) in enumerate(self._made):
            tensor = ref()
            if tensor is None or made.of is not None or made.engine is None:
                continue
            root, of = id(root_of(tensor)), grads.get(id(tensor))
            same = leaders.get(root)
            if root in roots:
                (call,) = [call for call in self.calls if made in call.made]
                raise (
                    Selection(call.target)
                    if call.selects
                    else Unpredictable("tensors that share memory outlive the step")
                )
            if of is not None and (same is not None or id(tensor) in twice):
                raise Unpredictable("a gradient shares its memory with another tensor")
            if tensor.shape != made.shape:
                raise Unpredictable("a tensor whose shape was changed in place outlives the step")
            geometry = geometry_of(tensor) if type(tensor._storage) is ViewStorage else None
            if geometry is None and (made.geometry is not None or type(tensor._storage) is ViewStorage):
                raise Unpredictable("a view without strides outlives the step")
            leaders.setdefault(root, slot)
            registered = gradients.registered()
            if tensor._requires_grad and not (registered is not None and registered.saves_nothing(tensor)):
                raise Unpredictable("a tensor with a graph outlives the step")
            if made.requires_grad and tensor.grad_fn is None:
                raise Unpredictable("a leaf that was made in the step outlives it")
            node = gradients.load().freed_again(tensor.grad_fn) if made.requires_grad else None
            version = tensor._storage.version
            results.append(Result(slot, node, version, base=tensor._base, same=same, of=of, geometry=geometry))
        return results


class Selection(Unpredictable):
    """A call of ``target`` on tensors from outside gives an alias of one that outlives the period: it has to be run at
    once.
    """

    def __init__(self, target: Any) -> None:
        super().__init__("an alias of a tensor from outside outlives the step")
        self.target: Any = target


class Broken(Unpredictable):
    """A call was run and cannot be logged; ``result`` is what it returned."""

    def __init__(self, text: str, result: Any) -> None:
        super().__init__(text)
        self.result: Any = result
