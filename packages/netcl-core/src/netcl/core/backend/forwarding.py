"""The computing calls of an engine, generated from ``DeviceBackend``: each calls the function of its name in a kernel
module of the engine.

A generated method has the signature, annotations and docstring of the protocol's. It asks whether the engine has
interceptors at work, and calls the kernel module itself if there are none.
"""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from netcl.core.engine.interceptors import Interceptor, intercepted, recovered
from netcl.core.engine.protocol import DeviceBackend
from netcl.core.engine.recording import open_here
from netcl.core.errors import ArgumentError, CaptureError, KernelBuildError, OutOfRangeError
from netcl.core.storage.data import TensorT

F = TypeVar("F", bound=Callable[..., Any])

_TEXT = """\
def {name}({parameters}):
    if self.intercepting:
        return intercepted(self, {name!r}, ({args}), {{{named}}})
    try:
        return self.kernel_modules.{module}.{name}(self, {args}{kwargs})
    except KernelBuildError as error:
        return recovered(self, error, {name!r}, ({args}), {{{named}}})
"""
_MODULE_OF: dict[str, str] = {}  # by the name of the call


@dataclass(frozen=True)
class KernelModules:
    """The files of a backend that compute; they have the same names and functions in both backends."""

    run: ModuleType
    each: ModuleType
    gemm: ModuleType
    conv: ModuleType
    window: ModuleType
    index: ModuleType
    random: ModuleType
    copy: ModuleType
    border: ModuleType
    resample: ModuleType
    scan: ModuleType
    sort: ModuleType
    compaction: ModuleType
    ctc: ModuleType
    recurrence: ModuleType
    attention: ModuleType
    sparse: ModuleType
    packed: ModuleType
    cached_attention: ModuleType
    host_call: ModuleType


def forwarded(call: F, module: str) -> F:
    """Returns an engine's method for a call of the protocol: the function of its name in the module ``module``."""
    name = call.__name__
    code = call.__code__  # read directly: this runs at import for each call, and inspect.signature is slow
    count = code.co_argcount
    positional, keyword = code.co_varnames[1:count], code.co_varnames[count : count + code.co_kwonlyargcount]
    defaults = dict(zip(reversed(positional), reversed(call.__defaults__ or ()))) | (call.__kwdefaults__ or {})
    signature = [*positional, *(["*"] if keyword else []), *keyword]
    parameters = [
        f"{parameter}={defaults[parameter]!r}" if parameter in defaults else parameter for parameter in signature
    ]
    text = _TEXT.format(
        name=name,
        module=module,
        parameters=", ".join(("self", *parameters)),
        args="".join(f"{parameter}, " for parameter in positional),
        kwargs="".join(f"{parameter}={parameter}, " for parameter in keyword),
        named="".join(f"{parameter!r}: {parameter}, " for parameter in keyword),
    )
    file = f"<{__name__.replace('.', '/')}.py {name}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file  # for tracebacks
    namespace: dict[str, Any] = {
        "__name__": __name__,
        "KernelBuildError": KernelBuildError,
        "intercepted": intercepted,
        "recovered": recovered,
    }
    exec(compile(text, file, "exec"), namespace)
    method = namespace[name]
    method.__doc__, method.__annotations__ = call.__doc__, dict(call.__annotations__)
    method.__qualname__ = f"ForwardedCalls.{name}"
    _MODULE_OF[name] = module
    return method  # type: ignore[no-any-return]


class DeviceFlags:
    """Messages of checks on devices: a kernel raises the code of a message, the next host read raises the message."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, type[Exception]], int] = {}
        self._next = itertools.count(1)  # no lock: a signal handler may ask for a code in the middle

    def code(self, message: str, error: type[Exception] = IndexError) -> int:
        """Returns the code of a message that is raised as ``error``, from 1."""
        return self._codes.get((message, error)) or self._codes.setdefault((message, error), next(self._next))

    def error(self, code: int, value: float, position: int, size: int) -> Exception:
        """Returns the error of a code, with the fields of its message filled in; see ``DeviceBackend.flag_code``."""
        text, error = next(entry for entry, number in list(self._codes.items()) if number == code)
        kind = {IndexError: OutOfRangeError, ValueError: ArgumentError}.get(error, error)
        return kind(text.format(value=value, position=position, size=size, last=size - 1))


flags: DeviceFlags = DeviceFlags()


class ForwardedCalls:
    """The computing calls of an engine, as ``DeviceBackend`` describes them, and what else both backends share."""

    kernel_modules: KernelModules
    interceptors: tuple[Interceptor, ...] = ()
    intercepting: bool = False

    @property
    def borders_at_once(self) -> bool:
        return False

    fill = forwarded(DeviceBackend.fill, "copy")
    run = forwarded(DeviceBackend.run, "run")
    run_each = forwarded(DeviceBackend.run_each, "each")
    reduce_each = forwarded(DeviceBackend.reduce_each, "each")
    matmul = forwarded(DeviceBackend.matmul, "gemm")
    conv = forwarded(DeviceBackend.conv, "conv")
    window = forwarded(DeviceBackend.window, "window")
    index = forwarded(DeviceBackend.index, "index")
    nonzero = forwarded(DeviceBackend.nonzero, "compaction")
    border = forwarded(DeviceBackend.border, "border")
    resample = forwarded(DeviceBackend.resample, "resample")
    scan = forwarded(DeviceBackend.scan, "scan")
    sort = forwarded(DeviceBackend.sort, "sort")
    ctc = forwarded(DeviceBackend.ctc, "ctc")
    recurrence = forwarded(DeviceBackend.recurrence, "recurrence")
    recurrence_back = forwarded(DeviceBackend.recurrence_back, "recurrence")
    attention = forwarded(DeviceBackend.attention, "attention")
    attention_grad = forwarded(DeviceBackend.attention_grad, "attention")
    sparse_rows = forwarded(DeviceBackend.sparse_rows, "sparse")
    sparse_pairs = forwarded(DeviceBackend.sparse_pairs, "sparse")
    packed_unpack = forwarded(DeviceBackend.packed_unpack, "packed")
    packed_product = forwarded(DeviceBackend.packed_product, "packed")
    packed_fused = forwarded(DeviceBackend.packed_fused, "packed")
    cached_attention = forwarded(DeviceBackend.cached_attention, "cached_attention")
    random = forwarded(DeviceBackend.random, "random")
    copy = forwarded(DeviceBackend.copy, "copy")
    scatter_block = forwarded(DeviceBackend.scatter_block, "copy")
    host_call = forwarded(DeviceBackend.host_call, "host_call")

    def kernel(self, name: str) -> Callable[..., Any]:
        """Returns the function that computes the call ``name``; it takes the engine first."""
        return getattr(getattr(self.kernel_modules, _MODULE_OF[name]), name)  # type: ignore[no-any-return]

    def zeros(self, shape: Sequence[int], dtype: str, *, persistent: bool = False) -> Any:
        engine: Any = self
        tensor: Any = engine.empty(shape, dtype, persistent=persistent)
        engine.fill(tensor, 0)
        return tensor

    def receive(self, source: TensorT) -> TensorT:
        """Returns a copy of another engine's tensor, by way of the host."""
        engine: Any = self
        tensor: TensorT = engine.tensor(source.engine.read(source), source.dtype)
        return tensor

    def flag_code(self, message: str, error: type[Exception] = IndexError) -> int:
        """Returns the code under which a check in a kernel raises ``error(message)``."""
        return flags.code(message, error)

    def forbid_upload(self) -> None:
        """Raises CaptureError while this thread records: a replay would see the values of the recording."""
        if open_here(self) is not None:
            raise CaptureError(
                "host data were written to the device while a step is captured, so a replay would see the old values; "
                "make the tensor before the capture and pass it in"
            )
