"""torch.jit: ``script`` and ``trace`` give the module back; files of TorchScript are refused."""

from __future__ import annotations

from builtins import isinstance as isinstance
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from typing import Final as Final

from netcl.core.errors import UnsupportedError
from netcl.nn import Module

TORCH_NAMES = ("Final", "_overload", "_overload_method")
_Any = TypeVar("_Any")


class ScriptFunction:
    """The class of compiled functions, of which there are none: for ``isinstance``."""


class ScriptModule(Module):
    """The class of compiled modules, for ``isinstance`` and as a base class: a module that Python runs."""


RecursiveScriptModule = ScriptFunction
TracedModule = ScriptFunction
TopLevelTracedModule = ScriptFunction


class Error(RuntimeError):
    """An error of TorchScript, which never happens here."""


class ScriptWarning(Warning):
    """A warning of TorchScript, which never happens here."""


class TracerWarning(Warning):
    """A warning of a trace, which never happens here."""


def script(obj: _Any, *args: Any, **kwargs: Any) -> _Any:
    """The object itself, which Python runs."""
    return obj


def trace(func: _Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> _Any:
    """The function or module itself."""
    return func


def trace_module(mod: _Any, inputs: Any = None, *args: Any, **kwargs: Any) -> _Any:
    """The module itself."""
    return mod


def freeze(mod: _Any, *args: Any, **kwargs: Any) -> _Any:
    """The module itself."""
    return mod


optimize_for_inference = freeze


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """A decorator that changes nothing."""
    return drop if callable(drop) else lambda function: function


def _same(fn: _Any, *args: Any) -> _Any:
    return fn


wrap = _same
unused = _same
export = _same
interface = _same
script_method = _same
script_if_tracing = _same
_overload = _same
_overload_method = _same


def annotate(the_type: Any, the_value: _Any) -> _Any:
    """The value itself."""
    return the_value


def is_scripting() -> bool:
    """False."""
    return False


is_tracing = is_scripting


def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Refused: raises UnsupportedError."""
    raise UnsupportedError("torch.jit.load: files of TorchScript hold programs, which are not run; load a state_dict")


def save(m: Any, f: Any, *args: Any, **kwargs: Any) -> None:
    """Refused: raises UnsupportedError."""
    raise UnsupportedError("torch.jit.save: there is no TorchScript; write torch.save(module.state_dict(), f)")


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result, computed at once; ``wait`` returns it."""
    return func(*args, **kwargs)


def wait(future: Any) -> Any:
    """The result of ``fork``."""
    return future


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A block that changes nothing."""
    yield


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """A block that changes nothing: ops are fused by ``torch.compile``."""
    yield
