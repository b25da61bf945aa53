"""Module: the base class of layers and models, a tree of named parameters, buffers and modules."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ParamSpec, Protocol, TypeVar

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.dtypes import is_floating
from netcl.core.errors import DTypeError, shorten_traceback
from netcl.nn.error_path import LOCATED, add_module_path, refuse_host_data
from netcl.nn.hooks import BackwardHooks, RemovableHandle
from netcl.nn.placement import moved
from netcl.nn.state import IncompatibleKeys, load_into

M = TypeVar("M", bound="Module")
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

# mypy and pyright take the branch of a variable of this name, as of typing's; jedi and Python take the other one.
TYPE_CHECKING = False

if TYPE_CHECKING:

    class Forward(Protocol[P, R_co]):
        """A module as its call sees it: the call has the parameters and the result of ``forward``."""

        def forward(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
            """The computation of the module."""
            ...


class Module:
    """The base class of all layers: a subclass creates its parts in ``__init__`` and computes in ``forward``.

    Assigning a Parameter or a Module to an attribute registers it under that name. The model is called as a function:
    ``model(x)``.
    """

    training: bool
    _parameters: dict[str, ag.Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]

    def __init__(self) -> None:
        values: dict[str, Any] = {
            "training": True,
            "_parameters": {},
            "_buffers": {},
            "_modules": {},
            "_passing_buffers": set(),
            "_pre_hooks": {},
            "_hooks": {},
            "_backward_hooks": {},
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation of the module; defined by subclasses."""
        raise TypeError(f"{type(self).__name__} has no forward(); a Module computes there")

    if TYPE_CHECKING:

        def __call__(self: Forward[P, R_co], *args: P.args, **kwargs: P.kwargs) -> R_co:
            """Runs ``forward`` and the hooks."""
            ...

    else:

        def __call__(self, *args, **kwargs):
            try:
                if self._pre_hooks or self._hooks or self._backward_hooks:
                    return self._hooked(args, kwargs)
                return self.forward(*args, **kwargs)
            except LOCATED as error:
                add_module_path(error, self)
                shorten_traceback(error)
                raise
            except (AttributeError, TypeError):
                refuse_host_data(self, args)
                raise

    def _hooked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the forward pass with its hooks."""
        for hook in tuple(self._pre_hooks.values()):
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        watched = BackwardHooks(self, tuple(self._backward_hooks.values())) if self._backward_hooks else None
        if watched is not None:
            args = watched.inputs(args)
        result = self.forward(*args, **kwargs)
        if watched is not None:
            result = watched.outputs(result)
        for hook in tuple(self._hooks.values()):
            changed = hook(self, args, result)
            if changed is not None:
                result = changed
        return result

    # -- attributes ----------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if "_modules" not in self.__dict__:
            raise AttributeError(
                f"{type(self).__name__}.__init__ has to call super().__init__() before it sets {name!r}"
            )
        tables: Any = (self._parameters, self._buffers, self._modules)
        kind: Any = (
            self._parameters
            if isinstance(value, ag.Parameter)
            else self._modules
            if isinstance(value, Module)
            else None
        )
        if kind is not None:
            self.__dict__.pop(name, None)
            for table in tables:
                if table is not kind:
                    table.pop(name, None)
            kind[name] = value
            return
        for table in tables:
            if name in table:
                if value is not None and not (table is self._buffers and isinstance(value, Tensor)):
                    what = (
                        "parameter" if table is self._parameters else "buffer" if table is self._buffers else "module"
                    )
                    raise TypeError(
                        f"{name!r} is a {what} of {type(self).__name__}; it cannot become a {type(value).__name__}"
                    )
                table[name] = value
                return
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            values = self.__dict__.get(table, {})
            if name in values:
                return values[name]
        if name == "__signature__":  # inspect.signature(model): a call has the parameters of forward
            return inspect.signature(self.forward)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._passing_buffers.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    def _check_name(self, name: str) -> None:
        if not name or "." in name:
            raise ValueError(f"a name in a module has no dot and is not empty: {name!r}")
        taken = name in self._parameters or name in self._buffers or name in self._modules
        if not taken and (name in self.__dict__ or hasattr(type(self), name)):
            raise ValueError(f"{type(self).__name__} has an attribute {name!r} already")

    def register_parameter(self, name: str, param: ag.Parameter | None) -> None:
        """Adds a parameter; None reserves the name for an optional parameter that is absent."""
        self._check_name(name)
        if param is not None and not isinstance(param, ag.Parameter):
            raise TypeError(f"register_parameter takes a Parameter or None, not {type(param).__name__}")
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that is not a parameter but moves with the module and, if ``persistent``, is part of
        its state.
        """
        self._check_name(name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"register_buffer takes a Tensor or None, not {type(tensor).__name__}")
        self._buffers[name] = tensor
        (self._passing_buffers.discard if persistent else self._passing_buffers.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a module under a name."""
        self._check_name(name)
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"add_module takes a Module or None, not {type(module).__name__}")
        self._modules[name] = module

    # -- walking -----------------------------------------------------------------------------------------------------

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Yields this module and all below, each once, with dotted names."""
        yield from self._walk(prefix, set())

    def _walk(self, prefix: str, seen: set[int]) -> Iterator[tuple[str, Module]]:
        if id(self) in seen:
            return
        seen.add(id(self))
        yield prefix, self
        for name, module in self.named_children():
            yield from module._walk(f"{prefix}.{name}" if prefix else name, seen)

    def modules(self) -> Iterator[Module]:
        """Yields this module and all below, each once."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yields the direct children with their names."""
        return ((name, module) for name, module in self._modules.items() if module is not None)

    def children(self) -> Iterator[Module]:
        """Yields the direct children."""
        return (module for _, module in self.named_children())

    def _entries(self, table: str, prefix: str, recurse: bool) -> Iterator[tuple[str, Any]]:
        """Yields the tensors of a table with dotted names, shared ones under their first name only."""
        seen: set[int] = set()
        for path, module in self.named_modules(prefix) if recurse else [(prefix, self)]:
            for name, tensor in getattr(module, table).items():
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield (f"{path}.{name}" if path else name), tensor

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, ag.Parameter]]:
        """Yields all parameters, each once, with dotted names."""
        return self._entries("_parameters", prefix, recurse)

    def parameters(self, recurse: bool = True) -> Iterator[ag.Parameter]:
        """Yields all parameters, each once."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def trainable_parameters(self) -> Iterator[ag.Parameter]:
        """Yields the parameters that require grad."""
        return (p for p in self.parameters() if p.requires_grad)

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Yields all buffers, each once, with dotted names."""
        return self._entries("_buffers", prefix, recurse)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yields all buffers, each once."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, path: str) -> Module:
        """Returns the module at a dotted path; the empty path is this module. Raises AttributeError if there is
        none.
        """
        module: Any = self
        for name in path.split(".") if path else ():
            module = getattr(module, name)
        if not isinstance(module, Module):
            raise AttributeError(f"{path!r} of {type(self).__name__} is no module")
        return module

    # -- state -------------------------------------------------------------------------------------------------------

    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """Returns parameters and persistent buffers by dotted name, not copied; shared ones under each of their
        names.
        """
        state: dict[str, Tensor] = {}
        for name, parameter in self._parameters.items():
            if parameter is not None:
                state[prefix + name] = parameter
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._passing_buffers:
                state[prefix + name] = buffer
        for name, module in self.named_children():
            state.update(module.state_dict(f"{prefix}{name}."))
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Writes tensors or arrays into parameters and buffers by name; returns (missing_keys, unexpected_keys).

        Everything is checked before anything is written: StateError (a RuntimeError) lists the entries that do not fit.
        With ``strict=False`` missing and unexpected names are not an error.
        """
        return load_into(type(self).__name__, self.state_dict(), state_dict, strict)

    def replace_tensors(self: M, change: Callable[[str, Tensor], Tensor]) -> M:
        """Replaces every parameter and buffer by ``change(name, tensor)``; shared ones stay shared, and grads are
        dropped.
        """
        done: dict[int, Tensor] = {}
        for path, module in self.named_modules():
            tables: Any = (module._parameters, module._buffers)
            for table in tables:
                for name, old in table.items():
                    if old is None:
                        continue
                    if id(old) not in done:
                        new = change(f"{path}.{name}" if path else name, old)
                        if isinstance(old, ag.Parameter) and new is not old:
                            new = ag.Parameter(new, requires_grad=old.requires_grad)
                        done[id(old)] = new
                    table[name] = done[id(old)]
        return self

    def to(self: M, device: Any = None, dtype: str | None = None) -> M:
        """Moves the module to ``device`` (selector, handle or queue) and its floating tensors to ``dtype``; returns the
        module.

        Changed parameters become new Parameter objects without gradients, so create the optimizer afterwards.
        """

        def change(name: str, t: Tensor) -> Tensor:
            return moved(t, device, dtype if t.dtype in ("float16", "bfloat16", "float32", "float64") else None)

        return self.replace_tensors(change)

    def __deepcopy__(self: M, memo: dict[int, Any]) -> M:
        # Tensors hold their queue, which cannot be copied; their values can.
        for module in self.modules():
            for table in (module._parameters, module._buffers):
                for old in table.values():
                    if old is not None and id(old) not in memo:
                        new = Tensor.empty(old.shape, old.dtype, queue=old.queue, persistent=True).write(old.detach())
                        memo[id(old)] = ag.Parameter(new, old.requires_grad) if isinstance(old, ag.Parameter) else new
            for value in module.__dict__.values():
                if isinstance(value, Tensor) and id(value) not in memo:
                    memo[id(value)] = Tensor.empty(value.shape, value.dtype, queue=value.queue).write(value.detach())
        copied = memo[id(self)] = type(self).__new__(type(self))
        for name, value in self.__dict__.items():
            object.__setattr__(copied, name, copy.deepcopy(value, memo))
        return copied

    # -- modes -------------------------------------------------------------------------------------------------------

    def train(self: M, mode: bool = True) -> M:
        """Sets training mode, or evaluation mode, in this module and all below."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: M) -> M:
        """Sets evaluation mode: dropout has no effect, batch normalization uses its running statistics."""
        return self.train(False)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients of all parameters, or fills them with zeros."""
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad.write(Tensor.zeros(p.grad.shape, p.grad.dtype, queue=p.grad.queue))

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Sets whether the parameters require grad."""
        for p in self.parameters():
            p.requires_grad = requires_grad
        return self

    def freeze(self: M) -> M:
        """``requires_grad_(False)``."""
        return self.requires_grad_(False)

    def unfreeze(self: M) -> M:
        """``requires_grad_(True)``."""
        return self.requires_grad_(True)

    def apply(self: M, fn: Callable[[Module], Any]) -> M:
        """Calls ``fn`` on all modules below and then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # -- hooks -------------------------------------------------------------------------------------------------------

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, args)`` before forward; its result, if not None, replaces the positional arguments."""
        return RemovableHandle(self._pre_hooks, hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, args, output)`` after forward; its result, if not None, replaces the output."""
        return RemovableHandle(self._hooks, hook)

    def register_full_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, grad_input, grad_output)``, tuples with None for missing gradients, in the backward
        pass.

        A returned tuple replaces ``grad_input``.
        """
        return RemovableHandle(self._backward_hooks, hook)

    def compile(self, *samples: Any) -> Callable[..., Any]:
        """Captures the forward pass for inputs like ``samples``; returns a function that replays it without Python per
        op.

        It computes without gradients and in the current mode and reads the current values of parameters and buffers. It
        raises CaptureError for other shapes or dtypes, and after a mode has changed or a tensor has been replaced.
        """
        from netcl.runtime.capture import capture

        def forward(*inputs: Any) -> Any:
            with ag.no_grad():
                return self(*inputs)

        def watch() -> Any:
            modes = tuple(module.training for module in self.modules())
            return modes, tuple(id(t) for t in (*self.parameters(), *self.buffers()))

        return capture(forward, *samples, watch=watch).replay

    # -- text --------------------------------------------------------------------------------------------------------

    def summary(self, input_shape: Iterable[int], dtype: str = "float32") -> str:
        """Returns a table of the layers for an input of ``input_shape`` (with its batch axis) and ``dtype`` (int64 for
        token ids): output shapes, parameters, multiply-adds.
        """
        from netcl.nn.summary import summary

        return summary(self, tuple(input_shape), dtype)

    def extra_repr(self) -> str:
        """Returns the text between the parentheses in the ``repr`` of a layer."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = [f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items()]
        if not lines:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}({extra}\n  " + "\n  ".join(lines) + "\n)"


def check_precision(layer: object, x: Tensor, parameter: Tensor | None) -> None:
    """Raises DTypeError with the layer's name if one of a floating input and a parameter is float64, the other not."""
    if parameter is None or x.dtype == parameter.dtype or "float64" not in (x.dtype, parameter.dtype):
        return
    if is_floating(x.dtype):
        raise DTypeError(
            f"{layer!r} has parameters in {parameter.dtype} and takes no {x.dtype}; convert the input with "
            f"astype({parameter.dtype!r}), or the layer with to(dtype={x.dtype!r})",
            op=type(layer).__name__,
        )
