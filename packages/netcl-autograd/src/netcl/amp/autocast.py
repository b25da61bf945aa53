"""autocast: an op hook that casts inputs by the policy of the op."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, overload

from netcl.amp.cpu_rule import HALVES, is_left
from netcl.autograd import Node, is_grad_enabled
from netcl.autograd.levels import need
from netcl.core import Tensor, config, dtypes, manager
from netcl.core.errors import DTypeError
from netcl.core.ops_table import modes
from netcl.core.ops_table.dispatch import OpRow, pop_hook, push_hook, row_of
from netcl.core.process.user_frame import level_outside

F = TypeVar("F", bound=Callable[..., Any])
_KEPT = ("cast", "transfer", "clone")
_warned: set[str] = set()


class _Cast:
    """The hook of one autocast block; casts of parameters are cached until the block ends.

    ``everywhere``: ops that are not faster in the half type on CPUs are computed in it there too.
    """

    def __init__(self, dtype: str, everywhere: bool) -> None:
        self.dtype = dtype
        self.everywhere = everywhere
        self._usable: dict[Any, bool] = {}
        self._parameters: dict[tuple[int, bool], tuple[Tensor, int, Tensor]] = {}

    def __call__(self, next: Callable[..., Any], row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if row.amp == "widest" or row.name in _KEPT:
            return next(row, args, kwargs)
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        if not tensors or not self._works_on(tensors[0]):
            return next(row, args, kwargs)
        on_cpu = not self.everywhere and tensors[0].engine.handle.device_type == "cpu"
        if on_cpu and row.amp == "half" and is_left(row.name, args, kwargs, [tensor.dtype for tensor in tensors]):
            return next(row, args, kwargs)
        if row.amp == "float32":
            source: tuple[str, ...] = HALVES
            target = "float32"
        else:
            source, target = ("float32", *HALVES), self.dtype
        # Batch norm reads its weights and statistics in float32; only its input is half.
        first = row.amp == "half" and row.expression is not None

        def changed(value: Any) -> Any:
            if isinstance(value, Tensor) and value.dtype in source and value.dtype != target:
                return self._converted(next, value, target)
            return value

        new = tuple([changed(value) if not first or at == 0 else value for at, value in enumerate(args)])
        return next(row, new, kwargs if first else {key: changed(value) for key, value in kwargs.items()})

    def _converted(self, next: Callable[..., Any], x: Tensor, dtype: str) -> Tensor:
        """Returns ``x`` cast to ``dtype``, recorded as the op is; a parameter is cast once per block and version."""
        row = row_of("cast")
        if not x.requires_grad or x.grad_fn is not None:
            return next(row, (x,), {"dtype": dtype})  # type: ignore[no-any-return]
        key = (id(x), is_grad_enabled())
        known = self._parameters.get(key)
        if known is not None and known[0] is x and known[1] == x.version and known[2].dtype == dtype:
            return known[2]
        result: Tensor = next(row, (x,), {"dtype": dtype})
        if isinstance(result, Node):
            self._parameters[key] = (x, x.version, result)
        return result

    def _works_on(self, x: Tensor) -> bool:
        if self.dtype != "float16":
            return True
        engine = x.engine
        if engine not in self._usable:
            self._usable[engine] = supports_fp16(x.queue)
            label = engine.device_label
            if not self._usable[engine] and label not in _warned:
                _warned.add(label)
                warnings.warn(
                    f"autocast: {label} has no cl_khr_fp16, so it computes in float32; with "
                    "dtype='bfloat16' autocast halves the memory there",
                    UserWarning,
                    stacklevel=level_outside(),
                )
        return self._usable[engine]


class _Current(threading.local):
    hook: _Cast | None = None


_current = _Current()


class autocast:
    """Inside, matrix products, convolutions and batch norms compute in ``dtype``, reductions and losses in float32.

    ``with autocast():`` or ``@autocast()``; per thread; ``enabled=False`` disables an outer block. Accumulators,
    statistics and parameters stay float32. float16 needs cl_khr_fp16: a device without it computes in float32, after
    one warning; bfloat16 is a storage format with float32 arithmetic and works on all devices.

    On CPUs an op that a half type does not make faster stays in float32, and so does its result: all ops on float32
    operands but convolutions with at least 2**19 elements in images and results together. An op with an operand in a
    half type is computed in it. With NETCL_AUTOCAST_ON_CPUS=half, and for ``torch.autocast`` in programs written for
    PyTorch, dtypes are the same on all devices.

    ``autocast(enabled, dtype)``, and PyTorch's ``autocast(device_type, dtype, enabled, cache_enabled)``: the device
    type decides only the default dtype, bfloat16 for "cpu", else float16. Casts are kept by the graph, so
    ``cache_enabled`` changes nothing; another floating dtype disables the block, with a warning. Raises TypeError for a
    dtype in the first place.
    """

    # True if CPUs compute in the dtypes of PyTorch too, even if that is slower.
    _everywhere = False

    @overload
    def __init__(self, enabled: bool = True, dtype: str | None = None) -> None: ...

    @overload
    def __init__(
        self, device_type: str, dtype: str | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None: ...

    def __init__(self, *args: Any, **options: Any) -> None:
        self.enabled: bool
        self.dtype: str
        items = tuple(options.items())
        try:
            self.enabled, self.dtype, warning = _read(args, items)
        except TypeError:  # its own, or of an argument that has no hash
            self.enabled, self.dtype, warning = _read.__wrapped__(args, items)
        if warning is not None:  # as PyTorch does
            warnings.warn(warning, stacklevel=level_outside())
        self._outer: list[_Cast | None] = []

    def __enter__(self) -> autocast:
        if self.enabled:
            need("half", "autocast")
            hook = _Cast(self.dtype, self._everywhere or not _is_ruled())
        else:
            hook = None
        self._outer.append(_current.hook)
        _switch(hook)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _switch(self._outer.pop())

    def __call__(self, function: F) -> F:
        enabled, dtype, everywhere = self.enabled, self.dtype, self._everywhere

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with _block((dtype, everywhere) if enabled else None):
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


@functools.lru_cache(256, typed=True)
def _read(args: tuple[Any, ...], items: tuple[tuple[str, Any], ...]) -> tuple[bool, str, str | None]:
    """Returns ``enabled`` and ``dtype`` of the arguments of an autocast block, and a warning or None."""
    options = dict(items)
    names = ("enabled", "dtype")
    if "device_type" in options or (args and isinstance(args[0], str)):
        names = ("device_type", "dtype", "enabled", "cache_enabled")  # type: ignore[assignment]
    unknown = options.keys() - set(names) - {"cache_enabled"}
    if len(args) > len(names) or unknown or options.keys() & set(names[: len(args)]):
        raise TypeError(f"autocast takes {', '.join(names)}; not {args} and {options}")
    options.update(zip(names, args))
    kind = str(options.get("device_type", ""))
    if kind in dtypes.SUPPORTED:
        raise TypeError(f"autocast: the first argument is a device_type or enabled; write autocast(dtype={kind!r})")
    enabled = bool(options.get("enabled", True))
    dtype = dtypes.canonical(options.get("dtype") or ("bfloat16" if kind == "cpu" else "float16"))
    if dtype in HALVES:
        return enabled, dtype, None
    if not (kind and dtypes.is_floating(dtype)):
        raise DTypeError(f"autocast: expected dtype float16 or bfloat16, got {dtype}", parameter="dtype")
    warning = f"autocast: {dtype} is no target of autocast; this block is disabled" if enabled else None
    return False, dtype, warning


def _is_ruled() -> bool:
    """Returns True if CPUs leave ops in float32; a core without the variable has other kernels than the rule knows."""
    return "AUTOCAST_ON_CPUS" in config.VARIABLES and config.get("AUTOCAST_ON_CPUS") != "half"


def _switch(hook: _Cast | None) -> None:
    """Makes ``hook`` the only autocast hook of this thread."""
    outer = _current.hook
    if outer is not None:
        pop_hook(outer)
    if hook is not None:
        push_hook(hook, "autocast")
    _current.hook = hook


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Returns True inside an enabled autocast block of this thread; a block holds for all devices."""
    return _current.hook is not None


def get_autocast_dtype(device_type: str | None = None) -> dtypes.DType:
    """Returns the dtype of this thread's autocast block, or the default one of ``autocast(device_type)`` outside."""
    return dtypes.OBJECTS[autocast_dtype() or ("bfloat16" if device_type == "cpu" else "float16")]


def autocast_dtype() -> str | None:
    """Returns the dtype of this thread's autocast block; None outside of one."""
    return None if _current.hook is None else _current.hook.dtype


def _mode() -> tuple[str, bool] | None:
    """Returns the dtype of this thread's autocast block, and True if CPUs always compute in it; None outside of one."""
    return None if _current.hook is None else (_current.hook.dtype, _current.hook.everywhere)


def _block(mode: tuple[str, bool] | None) -> autocast:
    """Returns a block; inside, ``_mode`` returns ``mode``."""
    block = autocast(mode is not None, None if mode is None else mode[0])
    block._everywhere = mode is not None and mode[1]
    return block


modes.register(_mode, _block)


def supports_fp16(q: Any = None) -> bool:
    """Returns True if the device of a queue or handle (None: the active one) has cl_khr_fp16; NumPy always has."""
    return bool(manager.profile(q).has_fp16)
