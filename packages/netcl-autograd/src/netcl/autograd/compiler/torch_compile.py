"""``nc.compile``: PyTorch's call form over ``jit_compile``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from netcl.autograd.compiler.jit import jit_compile
from netcl.autograd.compiler.training_step import compile_training_step
from netcl.core.errors import UnsupportedError

T = TypeVar("T", bound=Callable[..., Any])

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@overload
def compile(
    model: T,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
) -> T: ...
@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
) -> Callable[[T], T]: ...
def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
) -> Any:
    """Returns ``model``, a function or a module, with its ops fused by ``jit_compile``: ``nc.compile(model)``,
    ``@nc.compile`` or ``@nc.compile(fullgraph=True)``.

    A compiled module shares parameters, buffers, hooks and mode with ``model``, and its state has the same names (no
    ``_orig_mod.``). The function itself runs at each call, so shapes may change and nothing breaks a graph:
    ``fullgraph`` and ``dynamic`` change nothing, nor does ``mode``. ``backend`` is "inductor" (netcl's own), "eager"
    (``model`` itself, as with ``disable=True``), or "cudagraphs" for a whole step or inference:
    ``compile_training_step``, which replays the launches of the function and does not run its Python again. Raises
    UnsupportedError for another backend and for ``options``, ValueError for an unknown mode, TypeError for an object
    that cannot be called.

    >>> import netcl.autograd as ag
    >>> double = compile(lambda x: ag.relu(x) * 2)
    >>> double(ag.tensor([-1.0, 3.0])).tolist()
    [0.0, 6.0]
    """
    if mode is not None and mode not in MODES:
        raise ValueError(f"compile: expected a mode of {', '.join(MODES)}, got {mode!r}")
    if backend not in ("inductor", "eager", "cudagraphs"):
        raise UnsupportedError(
            f"compile: the backend {backend!r} is one of PyTorch; leave backend out for netcl's own, or write "
            'backend="eager" to run the function as it is'
        )
    if options:
        raise UnsupportedError(
            f"compile: options {options!r} belong to PyTorch's compiler; leave them out, and write "
            "netcl.autograd.jit_compile(fn, fast_math=True) for netcl's only one"
        )
    if model is None:
        return lambda function: compile(function, backend=backend, disable=disable)
    if not callable(model):
        raise TypeError(f"compile: expected a function or a module, got {type(model).__name__}")
    if disable or backend == "eager":
        return model
    is_module = hasattr(type(model), "forward")
    if backend == "cudagraphs":
        if is_module:
            raise UnsupportedError(
                "compile: a replay has no graph for a later backward; compile the function of the whole training step, "
                'or of inference: nc.compile(lambda x: model(x), backend="cudagraphs") called under nc.no_grad()'
            )
        return compile_training_step(model)
    return _compiled_module(model) if is_module else jit_compile(model)


def _compiled_module(model: Any) -> Any:
    """Returns an object of a subclass with the same attributes and a jitted ``forward``."""
    kind = type(model)
    if getattr(kind, "_compiled_from", None) is not None:
        return model
    parts = {
        "forward": jit_compile(kind.forward),
        "_compiled_from": kind,
        "__reduce_ex__": _reduced,
        "__module__": kind.__module__,
    }
    compiled: Any = object.__new__(type(kind.__name__, (kind,), parts))
    object.__setattr__(compiled, "__dict__", model.__dict__)
    return compiled


def _reduced(compiled: Any, protocol: Any) -> tuple[Any, ...]:
    return _restored, (type(compiled)._compiled_from, dict(compiled.__dict__))


def _restored(kind: type[Any], attributes: dict[str, Any]) -> Any:
    model = object.__new__(kind)
    model.__dict__.update(attributes)
    return _compiled_module(model)
