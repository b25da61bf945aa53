"""torch.overrides: classes of tensors of a program's own, whose functions, methods and operators call
``__torch_function__``, and modes that see all calls.

Plain tensors pay nothing: at the definition of the first class of a program its base becomes ``_Overriding``, with
methods that look for ``__torch_function__``, and functions of torch are replaced in their modules by others that do.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType, TracebackType
from typing import Any

from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.torch import tree

TORCH_NAMES = ("DisableTorchFunctionSubclass", "_disabled_torch_function_impl")

_DUNDERS = """
abs add and array bool complex contains deepcopy eq float floordiv format ge getitem gt iadd iand ifloordiv ilshift imod
imul index int invert ior ipow irshift isub iter itruediv ixor le len lshift lt matmul mod mul ne neg or pos pow radd
rand repr rfloordiv rlshift rmatmul rmod rmul ror rpow rrshift rshift rsub rtruediv rxor setitem sub truediv xor
"""
# The methods that operators are other names of: ``__torch_function__`` gets these.
_METHODS = {
    **{f"__{name}__": name for name in ("abs", "add", "ge", "gt", "le", "lt", "matmul", "mul", "ne", "neg")},
    **{f"__i{name}__": f"{name}_" for name in ("add", "mul", "sub")}, "__pow__": "pow", "__sub__": "sub",
    "__truediv__": "div", "__itruediv__": "div_", "__mod__": "remainder", "__radd__": "add", "__rmul__": "mul",
}  # fmt: skip
_PROPERTIES = ("H", "T", "data", "grad", "mH", "mT")
_AS_THEY_ARE = ("as_subclass", "size")
_MODULES = ("torch", "torch.functional", "torch.linalg", "torch.nn.functional", "torch.special")
_IGNORED = frozenset(("compile", "is_storage", "is_tensor", "load", "manual_seed", "save", "typename", "vmap"))


class _Thread(threading.local):
    """True if ``__torch_function__`` of classes is not called, and the modes, innermost last."""

    disabled: bool = False
    modes: tuple[TorchFunctionMode, ...] = ()


_thread = _Thread()


def _disabled_torch_function_impl(func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Calls ``func`` on the tensors as they are: the ``__torch_function__`` of a class without its own results."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


class DisableTorchFunctionSubclass:
    """A block in which the ``__torch_function__`` of classes is not called."""

    def __enter__(self) -> None:
        self._outer: bool = _thread.disabled
        _thread.disabled = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _thread.disabled = self._outer


class _Overriding(Tensor):
    """A tensor of a class of the program: PyTorch's defaults of ``__new__`` and ``__torch_function__``."""

    __slots__ = ()

    def __new__(cls, *data: Any, **fields: Any) -> Any:
        made = object.__new__(cls)
        Tensor.__init__(made, *data, **fields)
        return made

    def __init__(self, *data: Any, **fields: Any) -> None:
        pass  # __new__ has made the tensor, as in PyTorch

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Calls ``func`` on plain tensors and gives the tensors of the result this class; NotImplemented if an argument
        is of another class that is no base of this one.
        """
        if not all(issubclass(cls, kind) for kind in types):
            return NotImplemented
        with DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        return result if func in get_default_nowrap_functions() else _converted(result, cls, args)


def _converted(result: Any, cls: type[Any], args: Any) -> Any:
    if isinstance(result, Tensor):
        if isinstance(result, cls) or cls is Tensor:
            return result
        return result.as_subclass(cls)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*[_converted(item, cls, args) for item in result])
    if isinstance(result, (list, tuple)):
        return type(result)([_converted(item, cls, args) for item in result])
    return result


def _overloaded(values: Iterable[Any]) -> list[Any]:
    """The arguments, and elements of lists, of classes with a ``__torch_function__``: one of each class, that of a
    subclass before its base's.
    """
    overloaded: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is list or kind is tuple:
            several = _overloaded(value)
        elif _has_own(kind):
            several = [value]
        else:
            continue
        for x in several:
            if all(type(x) is not type(other) for other in overloaded):
                bases = (i for i, other in enumerate(overloaded) if issubclass(type(x), type(other)))
                overloaded.insert(next(bases, len(overloaded)), x)
    return overloaded


def _has_own(kind: type) -> bool:
    own = getattr(kind, "__torch_function__", None)
    return own is not None and own is not _disabled_torch_function_impl


def _called(public: Callable[..., Any], relevant: list[Any], args: Any, kwargs: dict[str, Any]) -> Any:
    modes = _thread.modes
    types = tuple([type(x) for x in relevant])
    if modes:
        _thread.modes = modes[:-1]
        try:
            result = modes[-1].__torch_function__(public, types, args, kwargs)
        finally:
            _thread.modes = modes
        if result is not NotImplemented:
            return result
    for x in relevant:
        result = type(x).__torch_function__(public, types, args, kwargs)
        if result is not NotImplemented:
            return result
    names = ", ".join(kind.__name__ for kind in types)
    name = f"{getattr(public, '__module__', '')}.{getattr(public, '__name__', public)}"
    raise TypeError(f"no implementation found for {name!r} on types that implement __torch_function__: {names}")


def _overridable(function: Callable[..., Any], public: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """``function`` that looks for ``__torch_function__`` among its arguments, which gets ``public``, by default the
    result.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        relevant = [] if _thread.disabled else _overloaded((*args, *kwargs.values()) if kwargs else args)
        if relevant or _thread.modes:
            return _called(public or call, relevant, args, kwargs)
        return function(*args, **kwargs)

    call.overridable = True  # type: ignore[attr-defined]
    return call


@functools.cache
def _members() -> dict[str, Any]:
    """The methods, operators and properties of Tensor that are looked for, as they are in its bases."""
    public = [name for name in tree.public_names()["torch.Tensor"] if name not in _AS_THEY_ARE]
    names = [*public, *(f"__{name}__" for name in _DUNDERS.split())]
    found = {}
    for name in names:
        member = inspect.getattr_static(Tensor, name, None)
        if isinstance(member, property) if name in _PROPERTIES else callable(member) and not isinstance(member, type):
            found[name] = member
    return found


def _overridable_member(name: str, member: Any) -> Any:
    if not isinstance(member, property):
        public = _members()[_METHODS.get(name, name)]
        reflected = name.startswith("__r") and f"__{name[3:]}" in _members()
        return _reflected(name, member, public) if reflected else _overridable(member, public)
    get, put = member.fget, member.fset
    assert get is not None
    return property(_overridable(get, get), put and _overridable(put, put), doc=member.__doc__)


def _reflected(name: str, member: Any, public: Any) -> Any:
    """The operator of a right operand, which Python asks first if the left one is a plain tensor."""
    forward = getattr(Tensor, f"__{name[3:]}")
    swapped = _overridable(forward, _members()[_METHODS.get(f"__{name[3:]}", f"__{name[3:]}")])
    plain = _overridable(member, public)

    @functools.wraps(member)
    def call(self: Any, other: Any) -> Any:
        return swapped(other, self) if isinstance(other, Tensor) else plain(self, other)

    return call


@functools.cache
def _activate() -> None:
    """Makes methods of ``_Overriding``, functions of torch and layers look for ``__torch_function__``."""
    from netcl.nn import Module

    for name, member in _members().items():
        setattr(_Overriding, name, _overridable_member(name, member))
    tree.replace_functions(_MODULES, _function)
    forward: Callable[..., Any] = Module.__call__

    @functools.wraps(forward)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = forward(self, *args, **kwargs)
        overriding = [] if _thread.disabled else [x for x in _overloaded(args) if isinstance(x, _Overriding)]
        return _converted(result, type(overriding[0]), args) if overriding else result

    Module.__call__ = call  # type: ignore[method-assign]


def _function(name: str, value: Any) -> Any:
    """A function of a module of torch that looks for ``__torch_function__``; another object as it is."""
    is_plain = isinstance(value, FunctionType) and not hasattr(value, "overridable")
    return _overridable(value) if is_plain and name not in _IGNORED and not name.startswith(("_", "is_grad")) else value


def subclassed(cls: type[Any]) -> None:
    """Called with each class of tensors that a program defines: it gets the methods that look for
    ``__torch_function__``.
    """
    if issubclass(cls, _Overriding):
        return
    _activate()
    if Tensor in cls.__bases__:
        cls.__bases__ = tuple([_Overriding if base is Tensor else base for base in cls.__bases__])


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """True if an argument, or a mode, has a ``__torch_function__``."""
    return bool(_thread.modes) or not _thread.disabled and any(_has_own(type(x)) for x in relevant_args)


def has_torch_function_unary(obj: Any) -> bool:
    """``has_torch_function`` of one argument."""
    return has_torch_function((obj,))


def has_torch_function_variadic(*args: Any) -> bool:
    """``has_torch_function`` of arguments."""
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """The result of the ``__torch_function__`` of the innermost mode or of the arguments, in PyTorch's order; raises
    TypeError if all return NotImplemented.
    """
    return _called(public_api, _overloaded(relevant_args), args, kwargs)


def is_tensor_like(inp: Any) -> bool:
    """True for a tensor, and for an object with a ``__torch_function__``."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """True for a method of Tensor, or the getter of a property."""
    members = _members().values()
    return any(func is (x.fget if isinstance(x, property) else x) for x in members)


@functools.cache
def get_default_nowrap_functions() -> frozenset[Callable[..., Any]]:
    """The functions whose results the default ``__torch_function__`` leaves as they are."""
    grad = _members()["grad"]
    return frozenset((grad.fget,))


def get_ignored_functions() -> set[Callable[..., Any]]:
    """The functions that call no ``__torch_function__``."""
    torch = tree.modules()["torch"]
    return {getattr(torch, name) for name in _IGNORED if hasattr(torch, name)}


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions and methods that call a ``__torch_function__``, by their module or class."""
    _activate()
    members = _members().values()
    functions: dict[Any, list[Any]] = {Tensor: [x.fget if isinstance(x, property) else x for x in members]}
    for place in _MODULES:
        module = tree.modules()[place]
        values = [getattr(module, name, None) for name in tree.names_of(place)]
        functions[module] = [function for function in values if hasattr(function, "overridable")]
    return functions


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The name of a function of ``get_overridable_functions``; None for another."""
    for holder, functions in get_overridable_functions().items():
        if any(f is function for function in functions):
            prefix = "torch.Tensor" if holder is Tensor else holder.__name__.removeprefix("netcl.")
            return f"{prefix}.{f.__name__}"
    return None


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function calls the ``__torch_function__`` of the arguments that ``dispatcher(*args)`` names."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(call, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return call

    return decorate


class TorchFunctionMode:
    """A block in which ``__torch_function__`` of this object sees each call of a function of torch or a method of a
    tensor of this thread, before those of the arguments. The call within it is seen by outer modes alone.
    """

    _entered = 0

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Raises UnsupportedError; a subclass has its own."""
        name = type(self).__name__
        raise UnsupportedError(f"{name}: expected a method __torch_function__(self, func, types, args, kwargs)")

    def __enter__(self) -> Any:
        _activate()
        if TorchFunctionMode._entered == 0:
            for name, member in _members().items():
                setattr(Tensor, name, _overridable_member(name, member))
        TorchFunctionMode._entered += 1
        _thread.modes = (*_thread.modes, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _thread.modes = _thread.modes[:-1]
        TorchFunctionMode._entered -= 1
        if TorchFunctionMode._entered == 0:
            for name, member in _members().items():
                if name in _inherited:
                    delattr(Tensor, name)
                else:
                    setattr(Tensor, name, member)


# Members that Tensor has from a base.
_inherited = frozenset(name for name in dir(Tensor) if name not in vars(Tensor))


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls each function as it is."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The result of ``func``."""
        return func(*args, **(kwargs or {}))


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """A block that changes nothing: there is one dispatch."""
    yield
