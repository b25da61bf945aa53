"""The op table and the one hook stack: every computation on tensors is a row here, and every call of it passes here.

Order of a call, outermost first: profiler, autocast, recorder, tracer, backend. The recorder is one for the process
(set by importing ``netcl.autograd``) and sees calls with ``record=True``; the others are pushed per thread. With no
hook pushed a call is one branch. A call seen before is repeated by its execution plan, without binding and
planning it again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache, partial, wraps
from typing import Any

import numpy as np

from netcl.core.dtypes import is_floating
from netcl.core.errors import BackendMismatchError, DTypeError, OutOfMemoryError, name_argument, shorten_traceback
from netcl.core.layout import contiguous_strides
from netcl.core.ops_table.forward_only import warn
from netcl.core.ops_table.program import (
    Bound,
    Program,
    Space,
    assign,
    bind,
    bound,
    check_out,
    evaluate,
    evaluate_each,
    program_row,
    reduce_each,
    set_shape,
)
from netcl.core.ops_table.records import Record, call_key, known, once, records
from netcl.core.ops_table.table import (
    EMPTY_IS_EVERY_AXIS,
    SPELLINGS,
    TABLE,
    Cases,
    Domain,
    OpRow,
    by_own_names,
    make_row,
    register_op,
    row_of,
    with_every_axis,
)
from netcl.core.process.grad_mode import state
from netcl.core.process.hook_stack import PREDICTOR, Hook, Snapshot, pop_hook, push_hook, snapshot
from netcl.core.process.hook_stack import hooks_of_thread as _thread
from netcl.core.storage import views
from netcl.core.storage.data import TensorData, requires_grad
from netcl.core.storage.size import Shape

__all__ = [
    "TABLE",
    "Bound",
    "Cases",
    "Domain",
    "Hook",
    "OpRow",
    "Program",
    "Record",
    "Snapshot",
    "Space",
    "TensorData",
    "assign",
    "bind",
    "bound",
    "call",
    "call_row",
    "caller",
    "compute",
    "entry",
    "evaluate",
    "evaluate_each",
    "execute",
    "explain",
    "known",
    "make_row",
    "own_form",
    "pop_hook",
    "program_row",
    "push_hook",
    "records",
    "reduce_each",
    "register_op",
    "row_of",
    "set_recorder",
    "set_shape",
    "snapshot",
]


_recorder: Hook | None = None


def call(name: str, *args: Any, record: bool | None = None, **kwargs: Any) -> Any:
    """Runs the op ``name``. ``record=None`` inherits from the composite op that is running (False outside of one)."""
    row = TABLE.get(name) or row_of(name)
    if record and name in EMPTY_IS_EVERY_AXIS:
        args = with_every_axis(EMPTY_IS_EVERY_AXIS[name], args)
    try:
        if record and not kwargs and row.composite is None and _recorder is not None and not _thread.state[1]:
            return _recorder(execute, row, args, kwargs)  # what ``call_row`` does in this case
        return call_row(row, args, kwargs, record)
    except Exception as error:
        own = own_form(error, args, kwargs)
        if own is not None:
            return own(row, args, kwargs)
        explain(error, row, args, kwargs)
        raise


def entry(x: Any, number: int) -> Any:
    """Returns ``x[number]`` as a recorded call: the view at once if no hook is set and ``x`` is a tensor with memory of
    its own, else by the row ``getitem``.
    """
    inherited, hooks = _thread.state
    storage = x._storage
    if not (hooks or _pooled or storage.deferred is not None or type(storage) is views.ViewStorage):
        place = _place(x.shape, number)
        if place is not None and x.engine.recording is None and not views.released(x):
            rest, geometry = place
            row = TABLE["strided_slice"]

            def view(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
                return views.stale(x, geometry)

            return view(row, (), {}) if _recorder is None else _recorder(view, row, (x, *rest), {})
    return call("getitem", x, number, record=True)


@lru_cache(maxsize=8192)
def _place(shape: tuple[int, ...], number: int) -> tuple[tuple[tuple[int, ...], ...], views.Geometry] | None:
    """Returns for ``x[number]`` the arguments of ``strided_slice`` after the tensor, and the elements; None if there is
    no such position, or the view has no elements or all of them.
    """
    if not shape or not -shape[0] <= number < shape[0] or shape[0] == 1 or 0 in shape:
        return None
    rest = shape[1:]
    arguments = (number % shape[0], *(0,) * len(rest)), (1,) * len(shape), (1, *rest), rest
    geometry = views.Geometry(shape, contiguous_strides(shape)).sliced(*arguments)
    return arguments, geometry._replace(shape=Shape(rest))


def caller(row: OpRow, record: bool | None) -> Callable[..., Any]:
    """Returns the function that calls ``row``: recorded, not recorded, or (None) as the running composite op."""
    axes_at = EMPTY_IS_EVERY_AXIS.get(row.name) if record else None

    def op(*args: Any, **kwargs: Any) -> Any:
        if axes_at:
            args = with_every_axis(axes_at, args)
        try:
            return call_row(row, args, kwargs, record)
        except Exception as error:
            own = own_form(error, args, kwargs)
            if own is not None:
                return own(row, args, kwargs)
            explain(error, row, args, kwargs)
            raise

    def straight(*args: Any, **kwargs: Any) -> Any:
        # The fast path of ``call_row`` and ``execute``: for calls seen before, if nothing is recorded and no hook is
        # set.
        recorded, hooks = _thread.state
        if not (recorded or hooks or _pooled):
            # A tensor that requires grad takes the full path, which warns.
            if len(args) == 2 and not kwargs:
                a, b = args
                try:
                    if a._requires_grad or b._requires_grad:
                        return call_row(row, args, kwargs)
                    key: Any = (row, a.engine, a.shape, a.dtype, b.engine, b.shape, b.dtype)
                except AttributeError:  # a number
                    key = None if requires_grad(args) else call_key(row, args, kwargs)
            elif len(args) == 1 and not kwargs:
                (a,) = args
                try:
                    if a._requires_grad:
                        return call_row(row, args, kwargs)
                    key = (row, a.engine, a.shape, a.dtype)
                except AttributeError:  # an array, or a list
                    key = None
            else:
                key = None if requires_grad(args) else call_key(row, args, kwargs)
            try:
                again = records[key].again  # faster than get(), and than a call of a slot as a method
            except KeyError:
                again = once
            result = again(args)
            if result is not None:
                return result
        return op(*args, **kwargs)

    return straight if record is None and (row.expression or row.product) is not None else op


def own_form(error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any] | None:
    """Returns the ``__netcl_op__`` of the first operand with one, as sparse tensors have, if the call failed as it is
    no Tensor; or the call with its 0-d tensors on the other operands' device, if they are the CPU's. Calls of tensors
    alone on one device pay nothing for it.
    """
    if isinstance(error, BackendMismatchError):
        return _with_numbers_moved(error, args)
    if not isinstance(error, (AttributeError, TypeError)):
        return None
    operands = [
        operand for value in (*args, *kwargs.values()) for operand in (value if isinstance(value, list) else [value])
    ]
    return next((form for operand in operands if (form := getattr(operand, "__netcl_op__", None))), None)


def _with_numbers_moved(error: BackendMismatchError, args: tuple[Any, ...]) -> Callable[..., Any] | None:
    """Returns an elementwise call with 0-d tensors of the CPU moved to the one device of the others; else None."""
    tensors = [value for value in args if isinstance(value, TensorData)]
    numbers = {id(value) for value in tensors if not value.shape and value.device.type == "cpu"}  # type: ignore[attr-defined]
    others: list[Any] = [value for value in tensors if id(value) not in numbers]
    if not numbers or len({other.engine for other in others}) != 1:
        return None

    def moved(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if row.expression is None:
            raise error
        places = [value.to(others[0].device) if id(value) in numbers else value for value in args]
        return call_row(row, tuple(places), kwargs, True)

    return moved


def explain(error: Exception, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Shortens the traceback of an error of a call of ``row``; raises TypeError, which names the argument, in place of
    an error of Python or NumPy about a wrong one.
    """
    kwargs = kwargs if SPELLINGS.isdisjoint(kwargs) else by_own_names(row, kwargs)
    if isinstance(error, (AttributeError, TypeError)):
        _refuse_host_data(row, args, kwargs)
    name_argument(error, row.name, row.signature, args, kwargs)
    shorten_traceback(error)


def _refuse_host_data(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    bound = {**dict(zip(row.signature.parameters, args)), **kwargs}
    for name, parameter in row.signature.parameters.items():
        value = bound.get(name)
        if isinstance(value, (list, tuple, np.ndarray)) and parameter.annotation in ("Tensor", "Tensor | None"):
            kind = type(value).__name__
            raise TypeError(
                f"{row.name}: expected a tensor as {name}, got {kind}; write netcl.tensor({name})"
            ) from None


def call_row(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], record: bool | None = None) -> Any:
    """Runs ``row`` through the hook stack."""
    if kwargs:
        if not SPELLINGS.isdisjoint(kwargs):
            kwargs = by_own_names(row, kwargs)
        if "pool" in kwargs and "pool" not in row.signature.parameters:
            return _call_pooled(row, args, kwargs, record)
        if "out" in kwargs:
            if kwargs["out"] is None:
                return call_row(row, args, {name: value for name, value in kwargs.items() if name != "out"}, record)
            _refuse_gradient(row.name, args, kwargs, record)
            if row.expression is None and "out" not in row.signature.parameters:
                return _call_into(row, args, kwargs, record)
    inherited, hooks = _thread.state
    if hooks and hooks[0][0] == PREDICTOR:
        return hooks[0][1].call(row, args, kwargs, record)  # type: ignore[attr-defined]
    if record is None:
        record = inherited
        if record is False and _recorder is not None and state.enabled and requires_grad((*args, *kwargs.values())):
            return _forward_only(row, args, kwargs)
    if row.composite is not None:
        if hooks and hooks[0][0] == 0:  # profilers see it as they see what it is made of; other hooks only that
            compose = partial(_compose, record)
            for hook in [hook for layer, hook in hooks if layer == 0][::-1]:
                compose = partial(hook, compose)
            return compose(row, args, kwargs)
        return _compose(record, row, args, kwargs)
    if not hooks:
        if record and _recorder is not None:
            return _recorder(execute, row, args, kwargs)
        return execute(row, args, kwargs)
    return _through(hooks, record, row, args, kwargs)


def _refuse_gradient(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], record: bool | None) -> None:
    """Raises RuntimeError if the call is recorded for a gradient, which a floating ``out=`` would lose."""
    out, recorded = kwargs["out"], _thread.state[0] if record is None else record
    if not recorded or _recorder is None or not any(is_floating(tensor.dtype) for tensor in _tensors_of(out)):
        return
    if state.enabled and requires_grad((*args, *kwargs.values())):
        raise RuntimeError(
            f"{name}: out= does not support automatic differentiation, but one of the arguments requires grad; "
            "leave out= away, or write under no_grad()"
        )


def _forward_only(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs ``row`` without recording, though an operand requires grad, and warns."""
    outer = _thread.state
    _thread.state = None, outer[1]  # None: the ops inside of this one do not warn again
    try:
        result = call_row(row, args, kwargs)
    finally:
        _thread.state = outer
    warn(row.name, result)
    return result


def _compose(record: bool | None, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs the function of a composite op; its ops are recorded as it is."""
    assert row.composite is not None
    state = _thread.state
    _thread.state = record, state[1]
    try:
        return row.composite(*args, **kwargs)
    except (DTypeError, OutOfMemoryError) as error:
        _say_where(error, row, args, kwargs)
        raise
    finally:
        _thread.state = state


def _call_into(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], record: bool | None) -> Any:
    """Runs an op with ``out=`` that is no expression: computes it, then copies the result, or each, into ``out``."""
    return written(
        row.name, kwargs["out"], call_row(row, args, {k: value for k, value in kwargs.items() if k != "out"}, record)
    )


def into(name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a function over ops that has no parameter ``out`` itself, by the rules of an op with ``out=``."""
    rest = {k: value for k, value in kwargs.items() if k != "out"}
    if kwargs["out"] is None:
        return function(*args, **rest)
    _refuse_gradient(name, args, kwargs, True)
    return written(name, kwargs["out"], function(*args, **rest))


def takes_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function over ops: it takes ``out=`` by the rules of ``into``."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return into(function.__name__, function, args, kwargs) if "out" in kwargs else function(*args, **kwargs)

    return call


def written(name: str, out: Any, result: Any) -> Any:
    """Copies a result, or each of a tuple, into ``out`` by ``check_out``; returns ``out`` in the result's type."""
    results, targets = _tensors_of(result), _tensors_of(out)
    if isinstance(out, TensorData) is not isinstance(result, TensorData) or len(targets) != len(results):
        expected = "one tensor" if isinstance(result, TensorData) else f"a tuple of {len(results)} tensors"
        size = f" of {len(out)}" if isinstance(out, (tuple, list)) else ""
        raise TypeError(f"{name}: expected out= to be {expected}, got {type(out).__name__}{size}")
    for target, source in zip(targets, results):
        check_out(name, target, source.shape, source.dtype, source.engine)
    for target, source in zip(targets, results):
        assign(target, source)
    return type(result)(*targets) if hasattr(result, "_fields") else out


def _tensors_of(out: Any) -> tuple[Any, ...]:
    """Returns the tensors of ``out``, one or several; nothing of another object."""
    if isinstance(out, TensorData):
        return (out,)
    return tuple([tensor for tensor in out if isinstance(tensor, TensorData)]) if isinstance(out, (tuple, list)) else ()


_pooled = 0  # calls under way, of any thread, with results from a pool of the caller


def _call_pooled(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], record: bool | None) -> Any:
    """Returns the op with ``pool=``: its result, and what it needs on the way, come from that pool of the device."""
    global _pooled
    rest = {name: value for name, value in kwargs.items() if name != "pool"}
    operands = [
        operand for value in (*args, *rest.values()) for operand in (value if isinstance(value, list) else [value])
    ]
    engine = next((operand.engine for operand in operands if isinstance(operand, TensorData)), None)
    if engine is None or kwargs["pool"] is None:
        return call_row(row, args, rest, record)
    with engine.allocating_from(kwargs["pool"]):
        with _pooled_lock:
            _pooled += 1
        try:
            return call_row(row, args, rest, record)
        finally:
            with _pooled_lock:
                _pooled -= 1


_pooled_lock = threading.RLock()


def _through(
    hooks: tuple[tuple[int, Hook], ...], record: bool | None, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if len(hooks) == 1 and hooks[0][0] > 2:  # a tracer alone
        inner = partial(hooks[0][1], execute)
        return _recorder(inner, row, args, kwargs) if record and _recorder is not None else inner(row, args, kwargs)
    below = [hook for layer, hook in hooks if layer > 2]
    middle = [_recorder] if record and _recorder is not None else []
    above = [hook for layer, hook in hooks if layer < 2]
    call: Callable[..., Any] = execute
    for hook in reversed((*above, *middle, *below)):  # no closure that holds itself: hooks may hold tensors
        call = partial(hook, call)
    return call(row, args, kwargs)


def set_recorder(hook: Hook | None) -> Hook | None:
    """Makes ``hook`` the process's recorder and returns the one before; netcl.autograd calls this. While there is one,
    calls that are not recorded although an operand requires grad warn (ForwardOnlyWarning).
    """
    global _recorder
    previous, _recorder = _recorder, hook
    return previous


def execute(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the innermost of the stack: computes the op, on plain tensors, and records nothing."""
    repeats = not _pooled and (row.view or row.expression or row.product)
    return compute(row, args, kwargs, known(row, args, kwargs) if repeats else None)


def compute(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], record: Record | None) -> Any:
    """Does the same by the record of the call, which may be None."""
    if record is not None and not _pooled:
        again = record.again
        result = again(args)
        if result is not None:
            return result
    try:
        if row.expression is None:
            ready, result = None, _compute(row, args, kwargs)
        else:
            ready, result = _evaluate(row, args, kwargs, record)
    except (DTypeError, OutOfMemoryError) as error:
        _say_where(error, row, args, kwargs)
        raise
    if record is not None and record.again is once and not _pooled:
        if record.computed:
            repeated = views.repeated(args, result) if row.view else _planned(row, args, kwargs, ready)
            record.again = repeated or _never
        record.computed = True
    return result


def _evaluate(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], record: Record | None) -> tuple[Bound, Any]:
    """Runs the program of an expression row: the program with its tensors, and the result of the op."""
    out = kwargs.pop("out", None) if "out" in kwargs else None
    ready = bound(row, args, kwargs, record)
    program = ready.program
    if out is not None and not check_out(
        row.name, out, program.finals[0], program.outputs[0].dtype, ready.inputs[0].engine
    ):
        assign(out, ready.run(None)[0])
        return ready, out
    results = ready.run(None if out is None else (out,))
    return ready, results[0] if program.single else results


def _planned(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any], ready: Bound | None) -> Any:
    """Returns the function that repeats a call after two computations, of the program ``ready``, or None for a product;
    None if its engine makes none.
    """
    if ready is None:
        product = None
        if row.product is not None and not any(isinstance(value, TensorData) for value in kwargs.values()):
            product = row.product(*args, **kwargs)
        make = product and getattr(args[0].engine, "planned", None)
        return make and make(product, args, {})
    make = getattr(ready.inputs[0].engine, "planned", None)
    operands = args[: len(row.operands)] if row.name in TABLE else args
    return make and not ready.program.relaxed and row.leading and make(ready.program, operands, ready.scalars)


def _never(args: tuple[Any, ...]) -> None:
    """Stands for the function of a call that is not repeated."""


def _say_where(error: DTypeError | OutOfMemoryError, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Completes the message of an unsupported dtype, or of a full device: the op, what was given, the device."""
    values = [
        operand for value in (*args, *kwargs.values()) for operand in (value if isinstance(value, list) else [value])
    ]
    tensors = [value for value in values if isinstance(value, TensorData)]
    said = error.op is not None
    if not said:
        error.op = row.name
    if isinstance(error, OutOfMemoryError):
        if not said:  # else an op inside of this one has said so
            operands = " and ".join(f"{tensor.dtype} {tensor.shape}" for tensor in tensors)
            error.args = (f"{row.name} of {operands}: {error}" if tensors else f"{row.name}: {error}",)
        return
    where = tensors[0].engine.device_label if tensors else ""
    if where not in str(error):
        operands = " and ".join(tensor.dtype for tensor in tensors)
        text = str(error) if row.name in str(error) else f"{row.name}: {error}"
        error.args = (f"{text} (given {operands} on {where})",)


def _compute(row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs the function of a computed row; nothing inside of it is recorded, as the row itself has been."""
    assert row.call is not None
    if row.dtypes != "any":
        first = getattr(args[0] if args else kwargs.get(row.operands[0]), "dtype", "float32")
        if first == "bool" or (row.dtypes == "floating" and not is_floating(first)):
            kind = "numbers" if row.dtypes == "numbers" else "floating dtypes"
            raise DTypeError(f"{row.name}: expected {kind}, got {first}; convert with astype")
    state = _thread.state
    if not state[0]:
        return row.call(*args, **kwargs)
    _thread.state = False, state[1]
    try:
        return row.call(*args, **kwargs)
    finally:
        _thread.state = state
