"""The op table: rows, and calls that pass hooks from the outermost to the computation."""

import threading
import warnings
from collections import namedtuple
from contextlib import contextmanager
from functools import partial, reduce

from netcl.core.errors import ForwardOnlyWarning, ShapeError, UnsupportedError
from netcl.core.process.user_frame import level_outside

TABLE = {}
LAYERS = ("profiler", "autocast", "recorder", "tracer")
SYNONYMS = {"dim": "axis", "keepdim": "keepdims", "input": "x a", "other": "b", "unbiased": "correction"}

Domain = namedtuple(
    "Domain",
    "low high kinks away cases reference gradient second",
    defaults=(-2.0, 2.0, (), 0.05, None, None, True, True),
)
# One op: computed by `call`, or a `composite` of other ops.
OpRow = namedtuple(
    "OpRow",
    "name signature doc operands attributes amp dtypes domain call composite expression",
    defaults=("widest", "any", Domain(), None, None, None),
)


class _Thread(threading.local):
    def __init__(self):
        self.hooks = {layer: [] for layer in LAYERS}
        self.inside, self.record = False, False


_thread = _Thread()
_recorder = []


def register_op(row):
    """Adds a row; ValueError if the name is taken."""
    if row.name in TABLE:
        raise ValueError(f"there is an op {row.name}")
    TABLE[row.name] = row
    return row


def row_of(name):
    """The row of an op; UnsupportedError if there is none."""
    if name not in TABLE:
        raise UnsupportedError(f"there is no op {name!r}", op=name)
    return TABLE[name]


def call(name, *args, record=None, **kwargs):
    """Runs an op by name."""
    return call_row(row_of(name), args, kwargs, record)


def call_row(row, args, kwargs, record=None):
    """Runs a row through the hooks; ``record=None`` is that of the composite around it."""
    wants = any(getattr(one, "requires_grad", False) for one in (*args, *kwargs.values()))
    if record is None and not _thread.inside and _recorder and wants:
        warnings.warn(f"{row.name} is not recorded: call netcl.autograd", ForwardOnlyWarning, level_outside())
    record = _thread.record if record is None else record
    hooks = {**_thread.hooks, "recorder": _recorder if record else []}
    chain = [hook for layer in (LAYERS[:1] if row.composite else LAYERS) for hook in hooks[layer]]
    innermost = partial(_compute, record=record) if row.composite else execute
    return reduce(lambda following, hook: partial(hook, following), reversed(chain), innermost)(row, args, kwargs)


def execute(row, args, kwargs):
    """Computes an op on plain tensors; nothing inside is recorded."""
    return _compute(row, args, kwargs, False)


def _compute(row, args, kwargs, record):
    kwargs = dict(kwargs)
    out, _ = kwargs.pop("out", None), kwargs.pop("pool", None)
    for name in SYNONYMS.keys() & kwargs.keys() - row.signature.parameters.keys():
        found = next((own for own in SYNONYMS[name].split() if own in row.signature.parameters), name)
        kwargs[found] = kwargs.pop(name)
    before = _thread.inside, _thread.record
    _thread.inside, _thread.record = True, record
    try:
        result = (row.composite or row.call)(*args, **kwargs)
    finally:
        _thread.inside, _thread.record = before
    return result if out is None else _into(out, result, row.name)


def _into(out, result, op):
    if out.shape != result.shape or out.dtype != result.dtype:
        raise ShapeError(f"{op}: out has {out.shape} {out.dtype}, the result {result.shape} {result.dtype}", op=op)
    return out.put(result.array)


def assign(target, source):
    """Writes ``source`` into ``target``, converted."""
    target.put(source.array.astype(target.array.dtype))


def explain(error, row, args, kwargs):
    """Raises a better error than that of a call; those of this core stay as they are."""


def own_form(error, args, kwargs):
    """The form of an op that its first operand brings."""
    return getattr(args[0], "__netcl_op__", None) if args and isinstance(error, TypeError) else None


def set_recorder(hook):
    """Makes ``hook`` the recorder of the process; returns the one before."""
    before = _recorder[0] if _recorder else None
    _recorder[:] = [] if hook is None else [hook]
    return before


def push_hook(hook, layer="profiler"):
    """Puts a hook outermost of its layer."""
    _thread.hooks[layer].insert(0, hook)
    return hook


def pop_hook(hook):
    """Takes a hook off; ValueError if it is not there."""
    next((hooks for hooks in _thread.hooks.values() if hook in hooks), []).remove(hook)


class Snapshot:
    """The hooks of a thread, for another one."""

    def __init__(self):
        self.hooks = {layer: list(hooks) for layer, hooks in _thread.hooks.items()}

    @contextmanager
    def active(self):
        """These hooks, for the duration of the block."""
        before, _thread.hooks = _thread.hooks, self.hooks
        try:
            yield
        finally:
            _thread.hooks = before


def snapshot():
    """This thread's hooks."""
    return Snapshot()
