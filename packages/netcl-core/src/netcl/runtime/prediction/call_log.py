"""The log of a period: its calls in order, with the tensors that they make and use by number."""

from __future__ import annotations

import weakref
from typing import Any

from netcl.core.engine.elsewhere import watching_elsewhere
from netcl.core.ops_table import modes
from netcl.core.ops_table.table import OpRow
from netcl.core.process.grad_mode import state
from netcl.core.process.hook_stack import hooks_of_thread
from netcl.core.storage import gradients
from netcl.core.storage.data import TensorData
from netcl.core.storage.views import ViewStorage, geometry_of, is_of_the_program, root_of
from netcl.core.tensor import Tensor, in_place
from netcl.core.tensor.generator import default_generator
from netcl.runtime.prediction.calls import Call, Made, Outside, Slot, Unpredictable, described, run_call

__all__ = ["READ_GRADIENT", "SET_GRADIENT", "PeriodLog", "Result", "are_casts", "block_of", "ends_here"]

READ_GRADIENT: Any = in_place.read_gradient.__wrapped__  # type: ignore[attr-defined]
SET_GRADIENT: Any = in_place.set_gradient.__wrapped__  # type: ignore[attr-defined]
_CALLS_MAX = 20_000
_JOINED = 8  # views from outside in a call that joins them, from which on it is run at once
_AUTOCAST = 1  # the rank of the only hooks below the predictor that do not see the calls themselves


def check_modes(hooks: tuple[tuple[int, Any], ...]) -> str | None:
    """Returns why calls of this thread cannot be predicted now; None if they can."""
    if not are_casts(hooks):
        return "a hook on ops"
    if is_special():
        return "a tape, a trace, hooks on saved tensors, or anomaly detection"
    return None


def are_casts(hooks: tuple[tuple[int, Any], ...]) -> bool:
    """Returns True if the hooks below the predictor are of autocast blocks alone."""
    return not hooks or all(rank == _AUTOCAST for rank, _ in hooks)


def is_special() -> bool:
    """Returns True if ops do more in this thread than to record a graph."""
    return state.tape is not None or state.trace is not None or state.anomaly or state.packs


def block_of(hooks: tuple[tuple[int, Any], ...]) -> Any:
    """Returns the autocast hook among the hooks below the predictor, None for none."""
    return hooks[0][1] if hooks else None


_freed: weakref.WeakSet[Any] = weakref.WeakSet()  # nodes above freed ones alone


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
    writes in place into it, and ``base`` its place among the views of a tensor; else it is read there. An alias is on
    the storage of the result of slot ``same``, a view shows elements of the result of slot ``root``. ``of``: the number
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
        root: int | None = None,
    ) -> None:
        self.slot: int = slot
        self.node: Any = node
        self.version: int = version
        self.outlives: bool = outlives
        self.base: Any = base
        self.same: int | None = same
        self.of: int | None = of
        self.root: int | None = root


class PeriodLog:
    """Runs the calls of one period on ``engine`` and writes them down. It keeps no tensor alive that a call makes.

    ``outside`` are the tensors from outside in the order of their first use, ``shared`` those on arrays of the program,
    ``blocks`` the modes of each autocast block, ``passed`` is True after a backward pass. ``close()`` gives the tensors
    that are still there.
    """

    def __init__(self, engine: Any) -> None:
        self.calls: list[Call] = []
        self.outside: list[Any] = []
        self.blocks: list[Any] = []
        self.shared: set[int] = set()
        self.engine: Any = engine
        self.passed: bool = False
        self._block: Any = self
        self._outside: dict[int, int] = {}
        self._memory: list[tuple[Any, Any]] = []  # storage and shape of the tensors from outside before the first call
        self._slots: dict[int, tuple[weakref.ref[Any], Made]] = {}
        self._made: list[tuple[weakref.ref[Any], Made]] = []  # by slot
        self._roots: list[weakref.ref[Any]] = []  # memory by slot
        self._storages: dict[int, weakref.ref[Any]] = {}
        self._gradients: set[int] = set()  # memory of gradients that the program has read

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
        versions, drawn = [tensor._storage.version for tensor in self.outside], default_generator.offset
        earlier = [] if isinstance(target, OpRow) and "out" not in kwargs else self._versions()
        elsewhere: list[Any] = []
        with watching_elsewhere(self.engine, lambda other, _: elsewhere.append(other)):
            result = run_call(target, args, kwargs, record)
        if elsewhere:
            raise Broken("a call computes on several devices", result)
        self.passed = self.passed or getattr(target, "makes_gradients", False)
        if target is SET_GRADIENT and type(call.args[1]) is Outside:
            raise Broken("a gradient is set to a tensor from outside", result)
        call.draws = default_generator.offset != drawn
        made: list[Made] = []
        try:
            of = _leaf_of(call)
            call.result = described(result, lambda tensor: self._result(tensor, made, of))
        except Unpredictable as unpredictable:
            raise Broken(str(unpredictable), result) from None
        if not isinstance(result, (TensorData, tuple, list, type(None))):
            raise Broken(f"a call returns a {type(result).__name__}", result)
        call.made = tuple(made)
        call.written = tuple(at for at, version in enumerate(versions) if self.outside[at]._storage.version != version)
        if any(type(self.outside[at]._storage) is ViewStorage for at in call.written):
            raise Broken("a view from outside is written", result)
        changes = getattr(target, "changes_gradients", False)
        call.rewritten = tuple(
            slot for slot, root, version in earlier
            if root.version != version or (changes and id(root) in self._gradients)
        )  # fmt: skip
        self.calls.append(call)
        return result

    def _versions(self) -> list[tuple[int, Any, int]]:
        """Returns the slot of each result whose memory is still there, the memory, and the number of writes into it."""
        there = [(slot, ref()) for slot, ref in enumerate(self._roots)]
        return [(slot, root, root.version) for slot, root in there if root is not None]

    def makes(self, tensor: Any) -> bool:
        """Returns True if ``tensor`` is on the storage of a result of the period."""
        made = self._storages.get(id(root_of(tensor)))
        return made is not None and made() is root_of(tensor)

    def concerns(self, tensor: Any) -> bool:
        """Returns True if ``tensor`` shares memory with a tensor of the period so far."""
        root = root_of(tensor)
        made = self._storages.get(id(root))
        return (made is not None and made() is root) or any(root_of(other) is root for other in self.outside)

    def dtype_of(self, reference: Slot | Outside) -> Any:
        """Returns the dtype of the tensor that an argument refers to."""
        at = reference.number
        return self._made[at][1].dtype if type(reference) is Slot else self.outside[at].dtype

    def _slot(self, tensor: Any) -> Made | None:
        entry = self._slots.get(id(tensor))
        return entry[1] if entry is not None and entry[0]() is tensor else None

    def _reference(self, tensor: Any) -> Slot | Outside:
        made = self._slot(tensor)
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
            if is_of_the_program(tensor):
                if tensor._requires_grad:
                    raise Unpredictable("a leaf is on an array of the program; write nc.tensor(array)")
                self.shared.add(number)
            self.outside.append(tensor)
            self._memory.append((tensor._storage, tensor.shape))
        return Outside(number)

    def _result(self, tensor: Any, made: list[Made], of: int | None) -> Slot | Outside:
        earlier = self._slot(tensor)
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
        if of is not None and (geometry is not None or tensor._requires_grad):
            raise Unpredictable("a gradient that is read is a view, or has a graph")
        fresh = Made(
            len(self._made), tensor.engine, tensor.shape, tensor.dtype, tensor._requires_grad, mark, geometry, of
        )
        ref, root = weakref.ref(tensor), root_of(tensor)
        if of is not None:
            self._gradients.add(id(root))
        self._slots[id(tensor)] = ref, fresh
        self._made.append((ref, fresh))
        self._roots.append(weakref.ref(root))
        self._storages[id(root)] = self._roots[-1]
        made.append(fresh)
        return Slot(fresh.slot)

    def close(self) -> list[Result]:
        """Returns the tensors of the period that the program still refers to.

        Raises Unpredictable if one shares its memory with a tensor from outside; LeftGraph if one has a graph that a
        backward pass can use.
        """
        leaves = [at for at, leaf in enumerate(self.outside) if gradients.held_by(leaf) is not None]
        grads = [id(gradients.held_by(self.outside[at])) for at in leaves]
        self._check_outside(grads)
        results: list[Result] = []
        views: list[Result] = []
        outside = {id(root_of(tensor)) for tensor in self.outside}
        graded = {id(root_of(gradients.held_by(self.outside[at]))) for at in leaves}
        roots = {*outside}
        places: dict[int, int] = {}  # by storage: the slot of its first result
        for slot, (ref, made) in enumerate(self._made):
            tensor = ref()
            if tensor is None:
                continue
            root = id(root_of(tensor))
            same = places.get(id(tensor._storage))
            if made.of is not None or id(tensor) in grads:
                if grads.count(id(tensor)) != 1:
                    raise Unpredictable("a gradient that was read is no more that of one leaf")
                if root in roots or made.geometry is not None or made.requires_grad:
                    raise Unpredictable("a gradient shares its memory with another tensor, or has a graph")
                roots.add(root)
                results.append(Result(slot, None, of=leaves[grads.index(id(tensor))]))
                continue
            is_view = made.geometry is not None or type(tensor._storage) is ViewStorage
            if root in (outside | graded if is_view else roots) and same is None:
                (call,) = [call for call in self.calls if made in call.made]
                raise (
                    Selection(call.target)
                    if call.selects
                    else Unpredictable("tensors that share memory outlive the step")
                )
            roots.add(root)
            if not is_view:
                places.setdefault(id(tensor._storage), slot)
            elif type(tensor._storage) is not ViewStorage or made.geometry != geometry_of(tensor):
                raise Unpredictable("a view that has changed outlives the step")
            registered = gradients.registered()
            if tensor._requires_grad and not (registered is not None and registered.saves_nothing(tensor)):
                raise LeftGraph("a tensor with a graph outlives the step")
            node = gradients.load().freed_again(tensor.grad_fn) if made.requires_grad else None
            result = Result(slot, node, tensor._storage.version, base=tensor._base, same=None if is_view else same)
            (views if is_view else results).append(result)
        self._find_roots(views, results, places)
        return [*results, *views]

    def _check_outside(self, grads: list[int]) -> None:
        """Raises Unpredictable if the tensors from outside cannot be those of another period."""
        if any(id(tensor) in grads for tensor in self.outside):
            raise Unpredictable("a gradient is used by itself")
        if any((t._storage is not s or t.shape != shape) for t, (s, shape) in zip(self.outside, self._memory)):
            raise Unpredictable("a tensor from outside is put on other memory")
        for call in self.calls:
            if self._joins_views(call):
                raise Selection(call.target)

    def _find_roots(self, views: list[Result], results: list[Result], places: dict[int, int]) -> None:
        """Finds the slot whose elements each view shows, and adds it to the results if its tensor is gone."""
        for view in views:
            root = self._roots[view.slot]()
            slots = (at for at, ref in enumerate(self._roots) if ref() is root and self._made[at][1].geometry is None)
            view.root = places.get(id(root), next(slots, None))
            if view.root is None:
                raise Unpredictable("a view of a view outlives the step")
            if all(result.slot != view.root for result in results):
                results.append(Result(view.root, None, view.version, outlives=False))

    def _joins_views(self, call: Call) -> bool:
        """Returns True for a call on a list of views from outside, as of a loader that stacks a batch: run at once, it
        is one copy, but as inputs of a stretch each view is a copy of its own.
        """
        operands = call.args[0] if isinstance(call.target, OpRow) and call.args else None
        if not isinstance(operands, (list, tuple)) or len(operands) < _JOINED:
            return False
        tensors = [self.outside[each.number] for each in operands if type(each) is Outside]
        return len(tensors) == len(operands) and all(
            type(tensor._storage) is ViewStorage and not tensor._requires_grad for tensor in tensors
        )


def _leaf_of(call: Call) -> int | None:
    """Returns the number from outside of the leaf whose gradient a call reads; None for another call."""
    if call.target is not READ_GRADIENT:
        return None
    (leaf,) = call.args
    if type(leaf) is not Outside:
        raise Unpredictable("the gradient of a result is read")
    return leaf.number


class Selection(Unpredictable):
    """A call of ``target`` on tensors from outside has to be run at once: it gives an alias of one that outlives the
    period, or joins views of them.
    """

    def __init__(self, target: Any) -> None:
        super().__init__("an alias of a tensor from outside outlives the step")
        self.target: Any = target


class LeftGraph(Unpredictable):
    """A tensor that outlives the period has a graph that a backward pass can use."""


class Broken(Unpredictable):
    """A call was run and cannot be logged; ``result`` is what it returned."""

    def __init__(self, text: str, result: Any) -> None:
        super().__init__(text)
        self.result: Any = result
