"""The errors netcl raises: few, named, each with the given values and a remedy."""

from __future__ import annotations

import dis
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

__all__ = [
    "ArgumentError",
    "AxisError",
    "BackendMismatchError",
    "CaptureError",
    "CollectiveMismatchError",
    "CollectiveTimeoutError",
    "ConfigError",
    "DTypeError",
    "DeviceLostError",
    "DeviceNotFoundError",
    "DeviceTimeoutError",
    "ExpressionError",
    "ForkedProcessError",
    "ForwardOnlyWarning",
    "KernelBuildError",
    "KeyKindError",
    "NetclError",
    "NoDataError",
    "NonFiniteError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "ShapeError",
    "SingularMatrixError",
    "UnsupportedError",
    "from_here",
    "name_argument",
    "shorten_traceback",
]


_F = TypeVar("_F", bound=Callable[..., Any] | dict[str, Any])
_RAISE = dis.opmap["RAISE_VARARGS"]


def shorten_traceback(error: BaseException) -> None:
    """Cuts the frames below the caller's off the traceback of an error that it is handling, so that the last line shown
    is close to the user's.

    Only if netcl raises the error by a ``raise`` statement and all of these frames are netcl's: an error of Python, of
    a library or of a function of the user keeps its frames. So does each error in Python's development mode (``python
    -X dev``).
    """
    first = error.__traceback__
    if first is None or sys.flags.dev_mode:
        return
    last = first
    while last.tb_next is not None:
        last = last.tb_next
        if not last.tb_frame.f_globals.get("__name__", "").startswith(("netcl.", "contextlib")):
            return
    if last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE or getattr(error, "_shortened", False):
        first.tb_next = None
        error._shortened = True  # type: ignore[attr-defined]


def from_here(function: _F) -> _F:
    """Decorates a public function with errors from many calls below: they show its own frame alone. A wrong argument is
    named if Python or NumPy raised the error.

    ``from_here(globals())`` at the end of a module decorates all public functions and constructors that it defines.
    """
    if isinstance(function, dict):
        _decorate_all(function)
        return function  # pyright: ignore[reportReturnType]

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            name = type(args[0]).__name__ if function.__name__ == "__init__" else function.__qualname__
            words = getattr(type(args[0]), "_words_of_others", {}) if args else {}
            _name_keyword(error, name, inspect.signature(function), kwargs, words)
            name_argument(error, name, inspect.signature(function), args, kwargs)
            shorten_traceback(error)
            raise

    call._decorated = True  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def _decorate_all(module: dict[str, Any]) -> None:
    decorated: dict[Any, Any] = {}  # by function, as some have several names

    def of(function: FunctionType) -> Any:
        if function not in decorated:
            decorated[function] = function if hasattr(function, "_decorated") else from_here(function)
        return decorated[function]

    for name, value in list(module.items()):
        if name.startswith("_") or getattr(value, "__module__", None) != module["__name__"]:
            continue
        if isinstance(value, FunctionType):
            module[name] = of(value)
        elif isinstance(value, type) and isinstance(vars(value).get("__init__"), FunctionType):
            value.__init__ = of(vars(value)["__init__"])  # type: ignore[misc]


# Keywords of Keras, TensorFlow, JAX and PyTorch Lightning for arguments that have PyTorch's names here.
_OF_OTHERS = {
    "kernel": "kernel_size",
    "filter_size": "kernel_size",
    "pool_size": "kernel_size",
    "window_shape": "kernel_size",
    "filters": "out_channels",
    "features": "out_features",
    "units": "out_features",
    "input_dim": "num_embeddings",
    "output_dim": "embedding_dim",
    "strides": "stride",
    "pad": "padding",
    "dilation_rate": "dilation",
    "use_bias": "bias",
    "with_bias": "bias",
    "rate": "p",
    "epsilon": "eps",
    "learning_rate": "lr",
    "axis": "dim",
    "dim": "axis",
    "heads": "num_heads",
    "key_dim": "embed_dim",
}


def _name_keyword(
    error: Exception, name: str, signature: inspect.Signature, kwargs: Mapping[str, Any], words: Mapping[str, str]
) -> None:
    """Raises UnsupportedError, which is a TypeError, in place of Python's error for a keyword that ``name`` does not
    take: it names the argument that is meant. ``words``: advice for keywords of other libraries.
    """
    known = [parameter for parameter in signature.parameters if parameter != "self"]
    if type(error) is not TypeError or any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
        return
    for keyword in kwargs:
        if keyword not in known:
            from difflib import get_close_matches  # 1 ms, which an import of netcl does not pay

            near = [_OF_OTHERS[keyword]] if _OF_OTHERS.get(keyword) in known else get_close_matches(keyword, known, 1)
            takes = f"write {near[0]}=..." if near else f"its arguments are {', '.join(known)}"
            advice = words.get(keyword, takes)
            raise UnsupportedError(
                f"{name}() got an unexpected keyword argument {keyword!r}; {advice}", op=name, parameter=keyword
            ) from None


_OF_ARGUMENTS = (AttributeError, TypeError, ValueError, IndexError, KeyError)
_CHECKS: dict[str, Callable[[Any], bool]] = {
    "Tensor": lambda value: hasattr(value, "dtype") and hasattr(value, "engine") or hasattr(value, "__netcl_op__"),
    "int": lambda value: hasattr(value, "__index__"),
    "float": lambda value: hasattr(value, "__float__") or hasattr(value, "__index__"),
    "str": lambda value: isinstance(value, str),
    "os.PathLike": lambda value: hasattr(value, "__fspath__"),
    "BinaryIO": lambda value: hasattr(value, "read") or hasattr(value, "write"),
    "bool": lambda value: not isinstance(value, (str, list, dict, type(None))) and type(value) is not object,
    "None": lambda value: value is None,
    "Callable": callable,
}
_SEQUENCE = r"(?:Sequence|list|tuple|Iterable)\[(\w+)"
_MOST_SHOWN = 40  # characters of a value


def name_argument(
    error: Exception, name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Raises UnsupportedError, which is a TypeError, in place of an error of Python or NumPy below a call of the
    function ``name``: it names the first argument that does not fit its annotation, or all of them. In place of a
    ValueError of arguments that fit their annotations it is ArgumentError, which is a ValueError too.

    Does nothing if netcl raised the error, or if a function of the user is among the frames. Runs when a call has
    failed, so that arguments cost nothing in others.
    """
    if not isinstance(error, _OF_ARGUMENTS) or isinstance(error, NetclError) or not _is_bare(error):
        return
    try:
        arguments = signature.bind(*args, **kwargs).arguments
        arguments.pop("self", None)
    except TypeError:  # Python's message says which argument is missing or too many
        return
    for parameter, value in arguments.items():
        expected = _unfit(str(signature.parameters[parameter].annotation), value)
        if expected:
            text = f"{name}: expected {expected} as {parameter}, got {_shown(value)}"
            raise UnsupportedError(text, op=name, parameter=parameter) from None
    if isinstance(error, (AttributeError, TypeError)) or type(error) is ValueError:
        values = ", ".join(f"{parameter}: {_shown(value)}" for parameter, value in arguments.items())
        kind = ArgumentError if isinstance(error, ValueError) else UnsupportedError
        raise kind(f"{name}: these arguments do not fit ({error}), got {values}", op=name) from error


def _is_bare(error: Exception) -> bool:
    """True if Python, its library or NumPy raised an error below netcl's own frames."""
    if getattr(error, "_shortened", False) or error.__traceback__ is None:
        return False
    last = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
        package = str(last.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in ("netcl", "numpy") and package not in sys.stdlib_module_names:
            return False
    inner = str(last.tb_frame.f_globals.get("__name__", "")).startswith("netcl")
    return not inner or last.tb_frame.f_code.co_code[last.tb_lasti] != _RAISE


def _unfit(annotation: str, value: Any) -> str:
    """Returns what an annotation expects if a value is certainly something else, else ""."""
    annotation = annotation.strip("'").replace("builtins.", "").replace("netcl.core.tensor.tensor.", "")
    if annotation.startswith("<class '"):
        annotation = annotation[len("<class '") : -len("'>")].rpartition(".")[2]
    for kind in annotation.split(" | "):
        sequence = re.match(_SEQUENCE, kind)
        check = _CHECKS.get(sequence[1] if sequence else kind.partition("[")[0])
        if check is None:
            return ""
        if sequence and isinstance(value, (list, tuple)) or hasattr(value, "__array__") and sequence:
            if all(map(check, value)):
                return ""
        elif not sequence and check(value):
            return ""
    return f"a {annotation}" if annotation in ("Tensor", "str", "bool", "float") else annotation


def _shown(value: Any) -> str:
    """Returns the type of a value, with its shape or its text if these are short."""
    shape = getattr(value, "shape", None)
    kind = type(value).__name__
    if isinstance(shape, tuple):
        return f"{kind} {shape}"
    if not isinstance(value, (int, float, str, list, tuple, dict)) or value is None:
        return kind
    if not isinstance(value, (int, float, str)):
        return f"{kind} of {len(value)}"
    text = repr(value)
    return f"{kind} {text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + '...'}"


class NetclError(RuntimeError):
    """Base of all errors of netcl; each subclass is also the built-in error of its kind, and all are RuntimeErrors, as
    PyTorch's are.

    ``op`` names the operation that failed, by default the one that the text begins with, ``matmul: ...``; ``parameter``
    names the argument or model parameter at fault. They are None if unknown.
    """

    op: str | None
    parameter: str | None

    def __init__(self, *args: object, op: str | None = None, parameter: str | None = None) -> None:
        super().__init__(*args)
        named = None if op is not None else re.match(r"([a-z]\w*): ", str(args[0]) if args else "")
        self.op = named[1] if named else op
        self.parameter = parameter


class ConfigError(NetclError, ValueError):
    """A NETCL_ variable or an override has an unknown name or a value it cannot take."""


class ShapeError(NetclError, ValueError):
    """Shapes, axes or sizes do not fit together."""


class ArgumentError(NetclError, ValueError):
    """A number or a choice is not one that the operation takes."""


class AxisError(ShapeError, IndexError):
    """An axis is out of range."""


class OutOfRangeError(NetclError, IndexError):
    """An index is out of range."""


class SingularMatrixError(NetclError, ValueError):
    """A matrix has no inverse or no factorization of the kind asked for, or LAPACK's iteration did not converge."""


class UnsupportedError(NetclError, TypeError):
    """The operation is not defined for this kind of input, module or device."""


class KeyKindError(UnsupportedError, IndexError):
    """A key of a tensor holds an object that is no index."""


class SizeKindError(ShapeError, TypeError):
    """A length of a shape is no whole number."""


class DTypeError(UnsupportedError, ValueError, NotImplementedError):
    """A dtype is unknown, or not one the operation or the device takes."""


class IndexDTypeError(DTypeError, IndexError):
    """Indices are no whole numbers."""


class BackendMismatchError(NetclError, ValueError):
    """Tensors of one operation are on different backends, contexts or devices."""


class NoDataError(UnsupportedError, NotImplementedError):
    """Elements of a tensor on the device "meta", which has none, are read."""


class ExpressionError(NetclError, ValueError):
    """An expression text cannot be parsed; the message has the position."""


class DeviceNotFoundError(NetclError, LookupError):
    """No device matches the selector; the message lists the available ones."""


class DeviceError(NetclError):
    """The device reports a fault of a launch; the message names the kernels in flight (NETCL_SYNC=1: the one)."""


class DeviceLostError(DeviceError):
    """The driver reports the device as lost; its tensors are gone, host copies can still be saved."""


class ForkedProcessError(NetclError):
    """A forked child touched a device with a context of its parent."""


class CaptureError(NetclError):
    """A step cannot be captured, or its key changed since the capture.

    ``ready`` is None, or a function: the step can be captured once it returns True.
    """

    ready: Callable[[], bool] | None = None


class CollectiveMismatchError(NetclError):
    """The ranks of a group called different collectives, or one with different shapes or dtypes."""


class CollectiveTimeoutError(NetclError, TimeoutError):
    """A collective did not finish within its timeout."""


class DeviceTimeoutError(NetclError, TimeoutError):
    """A wait for the device exceeded its timeout; the work continues."""


class NonFiniteError(NetclError, FloatingPointError):
    """A NaN or an infinity appeared; ``op`` and ``parameter`` say where first."""


class ForwardOnlyWarning(UserWarning):
    """A function of ``netcl.ops`` was called on a tensor that requires grad; such a function is never recorded."""


def format_bytes(nbytes: int) -> str:
    """Returns a number of bytes with a binary unit: ``format_bytes(1536) == "1.5 KiB"``."""
    if abs(nbytes) < 1024:
        return f"{nbytes} bytes"
    units = ("KiB", "MiB", "GiB", "TiB")
    power = min((abs(nbytes).bit_length() - 1) // 10, len(units))
    return f"{nbytes / 1024**power:.4g} {units[power - 1]}"


class OutOfMemoryError(NetclError, MemoryError):
    """The device has no room for a buffer, even after the pools released their cached buffers.

    All sizes are bytes: ``requested`` (0: a driver that allocates late has refused a launch); ``free`` and ``largest``
    (the largest single buffer the device allows), None if unknown; ``holders`` is a list of (description, bytes) of the
    largest allocations, largest first.
    """

    def __init__(
        self,
        requested: int,
        free: int | None = None,
        largest: int | None = None,
        holders: Sequence[tuple[str, int]] = (),
        *,
        device: str = "",
        op: str | None = None,
        parameter: str | None = None,
    ) -> None:
        self.requested = requested
        self.free = free
        self.largest = largest
        self.holders: tuple[tuple[str, int], ...] = tuple(holders)
        where = f" on {device}" if device else ""
        wanted = f"{format_bytes(requested)} requested" if requested else "no room for the buffers of a launch"
        message = f"out of memory{where}: {wanted}"
        if free is not None:
            message += f", {format_bytes(free)} free"
        if largest is not None:
            message += f", the largest single buffer is {format_bytes(largest)}"
        message += ". Cached buffers were freed and the request was tried again. "
        if self.holders:
            message += "Most is held by: " + "; ".join(f"{what} ({format_bytes(n)})" for what, n in self.holders) + ". "
        message += (
            "Use a smaller batch, a narrower dtype or gradient checkpointing, or delete tensors no longer needed."
        )
        super().__init__(message, op=op, parameter=parameter)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.requested, self.free, self.largest, self.holders), dict(self.__dict__, args=self.args)


# Clang writes "file:line:column: error", PoCL "error: file:line:column:", some vendors "line N: error" or "(N): error".
_LINE_IN_LOG = (
    r":(\d+):\d+:\s*(?:fatal )?error",
    r"error:\s*\S*?:(\d+):\d+:",
    r"\bline (\d+)\b[^\n]*error",
    r"\((\d+)\)\s*:\s*(?:fatal )?error",
    r":(\d+):\d+:",
)
_LINES_AROUND = 4
_LINES_WITHOUT_POSITION = 40
_LOG_CHARACTERS = 4000


def _error_lines(log: str, count: int) -> list[int]:
    for pattern in _LINE_IN_LOG:
        lines = [int(text) for text in re.findall(pattern, log, re.IGNORECASE)]
        lines = [line for line in lines if 1 <= line <= count]
        if lines:
            return sorted(set(lines))[:5]
    return []


def _numbered_excerpt(source: str, log: str) -> str:
    """Returns numbered source lines around each error in the log, faulty ones marked; without errors the first."""
    lines = source.splitlines()
    marked = _error_lines(log, len(lines))
    if marked:
        shown = sorted(
            {n for at in marked for n in range(at - _LINES_AROUND, at + _LINES_AROUND + 1) if 1 <= n <= len(lines)}
        )
    else:
        shown = list(range(1, min(len(lines), _LINES_WITHOUT_POSITION) + 1))
    rows: list[str] = []
    previous = 0
    for number in shown:
        if number != previous + 1:
            rows.append("       ...")
        rows.append(f"{'>' if number in marked else ' '} {number:4d} | {lines[number - 1]}")
        previous = number
    if previous < len(lines):
        rows.append("       ...")
    return "\n".join(rows)


class KernelBuildError(NetclError):
    """The driver refused a kernel.

    ``source``, ``options`` and ``log`` are the build's, ``device`` and ``driver`` names. The message numbers the
    source lines near the errors of the log; the whole text is in ``source``.
    """

    def __init__(
        self,
        source: str,
        options: str = "",
        log: str = "",
        device: str = "",
        driver: str = "",
        *,
        op: str | None = None,
        parameter: str | None = None,
    ) -> None:
        self.source = source
        self.options = options
        self.log = log
        self.device = device
        self.driver = driver
        shown_log = log.strip() or "(the driver gave no log)"
        if len(shown_log) > _LOG_CHARACTERS:
            shown_log = shown_log[:_LOG_CHARACTERS] + f"\n... ({len(log)} characters in all, see .log)"
        what = f" for {op}" if op else ""
        on = f" on {device}" if device else ""
        by = f" (driver {driver})" if driver else ""
        message = f"a kernel{what} does not build{on}{by}, options {options!r}\n{shown_log}\n"
        super().__init__(message + _numbered_excerpt(source, log), op=op, parameter=parameter)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.source, self.options, self.log, self.device, self.driver)
        return type(self), fields, dict(self.__dict__, args=self.args)
