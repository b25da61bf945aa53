"""Module: the base class of layers and models, a tree of named parameters, buffers and modules."""

from __future__ import annotations

import copy
import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MethodType
from typing import Any, ParamSpec, Protocol, TypeVar, overload

import netcl.autograd as ag
from netcl.autograd.compiler.compiled_function import CompiledFunction
from netcl.autograd.compiler.torch_compile import compile as compiled_form
from netcl.autograd.prediction import changes_gradients, repetition
from netcl.core import Tensor
from netcl.core.dtypes import canonical, is_floating
from netcl.core.errors import DTypeError, NetclError, UnsupportedError, from_here, shorten_traceback
from netcl.nn.error_path import LOCATED, add_module_path, refuse_host_data
from netcl.nn.hooks import EVERY, BackwardHooks, ForwardHook, RemovableHandle, of_all_modules, registered
from netcl.nn.placement import Buffer, count_module, count_tensor, moved, queue_of
from netcl.nn.state import IncompatibleKeys, StateError, load_into

M = TypeVar("M", bound="Module")
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

# mypy and pyright take the branch of a variable of this name, as of typing's; jedi and Python take the other one.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from netcl.nn.summary import Summary

    class Forward(Protocol[P, R_co]):
        """A module as its call sees it: the call has the parameters and the result of ``forward``."""

        def forward(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
            """Returns the computation of the module."""
            ...


# Advice for methods that a module does not have: of PyTorch's compiled modules and of other libraries.
_ABSENT = {
    "save": ": there is no TorchScript; write torch.save(module.state_dict(), path)",
    "graph": ": there is no TorchScript; write torch.onnx.export(module, args, path)",
    # Methods of Keras's and Lightning's models.
    "fit": ": write netcl.trainer.Trainer(model, optimizer).fit(DataLoader((x, y), batch_size=32), epochs=10)",
    "evaluate": ": write netcl.trainer.Trainer(model).evaluate(DataLoader((x, y)))",
    "predict": ": write netcl.trainer.Trainer(model).predict(DataLoader(x)), or model(x)",
}


class NoForwardError(UnsupportedError, NotImplementedError):
    """A module that defines no ``forward`` is called."""


class MemberNameError(NetclError, ValueError, KeyError):
    """A name cannot be that of a parameter, a buffer or a module."""

    __str__ = Exception.__str__  # a KeyError shows its text in quotes


class Module:
    """The base class of all layers: a subclass creates its parts in ``__init__`` and computes in ``forward``.

    Assigning a Parameter or a Module to an attribute registers it under that name. The model is called as a function:
    ``model(x)``. ``about`` is a dict of plain values that a model file keeps, such as the names of the classes; None:
    nothing is known.
    """

    _version: int = 1  # of the layout of its state
    training: bool
    about: dict[str, Any] | None = None
    _parameters: dict[str, ag.Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls) and cls.__module__.startswith("netcl."):
            cls.__init__ = from_here(vars(cls)["__init__"])  # type: ignore[method-assign]

    def __init__(self) -> None:
        count_module()
        values: dict[str, Any] = {
            "training": True,
            "_parameters": {},
            "_buffers": {},
            "_modules": {},
            "_non_persistent_buffers_set": set(),
            "_forward_pre_hooks": {},
            "_forward_pre_hooks_with_kwargs": {},
            "_forward_hooks": {},
            "_forward_hooks_with_kwargs": {},
            "_forward_hooks_always_called": {},
            "_backward_hooks": {},
            "_backward_pre_hooks": {},
            "_state_hooks": {},
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the computation of the module; defined by subclasses."""
        raise NoForwardError(f"{type(self).__name__} has no forward(); a Module computes there")

    if TYPE_CHECKING:

        def __call__(self: Forward[P, R_co], *args: P.args, **kwargs: P.kwargs) -> R_co:
            """Runs ``forward`` and the hooks."""
            ...

    else:

        def __call__(self, *args, **kwargs):
            if not ag.is_grad_enabled():
                repetition(self, args)
            try:
                if (
                    self._forward_pre_hooks
                    or self._forward_hooks
                    or self._backward_hooks
                    or self._backward_pre_hooks
                    or EVERY
                ):
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
        """Runs the forward pass with its hooks; the hooks of all modules come first."""
        done = False
        kwargs_after, always = self._forward_hooks_with_kwargs, self._forward_hooks_always_called
        own = [ForwardHook(hook, key in kwargs_after, key in always) for key, hook in self._forward_hooks.items()]
        after = [*of_all_modules("forward"), *own]
        kwargs_before = self._forward_pre_hooks_with_kwargs
        own = [ForwardHook(hook, key in kwargs_before) for key, hook in self._forward_pre_hooks.items()]
        try:
            for hook in [*of_all_modules("forward_pre"), *own]:
                changed = hook(self, args, kwargs)
                if changed is not None and hook.with_kwargs:
                    args, kwargs = changed
                elif changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
            backward = [*of_all_modules("backward"), *self._backward_hooks.values()]
            before = [*of_all_modules("backward_pre"), *self._backward_pre_hooks.values()]
            watched = BackwardHooks(self, backward, before) if backward or before else None
            if watched is not None:
                args = watched.inputs(args)
            result = self.forward(*args, **kwargs)
            if watched is not None:
                result = watched.outputs(result)
            done = True
            for hook in after:
                changed = hook(self, args, kwargs, result)
                if changed is not None:
                    result = changed
            return result
        finally:
            if not done:
                for hook in after:
                    if hook.always:
                        hook(self, args, kwargs, None)

    # -- attributes ----------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if "_modules" not in self.__dict__:
            if not isinstance(value, (Module, ag.Parameter, Buffer)):
                object.__setattr__(self, name, value)
                return
            raise AttributeError(f"{type(self).__name__}.__init__ must call super().__init__() before it sets {name!r}")
        tables: Any = (self._parameters, self._buffers, self._modules)
        if isinstance(value, Buffer):
            for table in tables:
                table.pop(name, None)
            self.__dict__.pop(name, None)
            self.register_buffer(name, value.data, value.persistent)
            return
        kind: Any = (
            self._parameters
            if isinstance(value, ag.Parameter)
            else self._modules
            if isinstance(value, Module)
            else None
        )
        if kind is not None:
            value = registered("parameter" if kind is self._parameters else "module", self, name, value)
            self.__dict__.pop(name, None)
            for table in tables:
                if table is not kind:
                    table.pop(name, None)
            kind[name] = value
            return
        for what, table in zip(("parameter", "buffer", "module"), tables):
            if name in table:
                if value is not None and not (what == "buffer" and isinstance(value, Tensor)):
                    raise TypeError(
                        f"{name!r} is a {what} of {type(self).__name__}; it cannot become a {type(value).__name__}"
                    )
                table[name] = registered(what, self, name, value)
                return
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            values = self.__dict__.get(table, {})
            if name in values:
                return values[name]
        if name == "__signature__":  # inspect.signature(model): a call has the parameters of forward
            return inspect.signature(self.forward)
        advice = _ABSENT.get(name, "")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{advice}")

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    def _check_name(self, name: str) -> None:
        if not name or "." in name:
            raise MemberNameError(f"a name in a module has no dot and is not empty: {name!r}")
        taken = name in self._parameters or name in self._buffers or name in self._modules
        if not taken and (name in self.__dict__ or hasattr(type(self), name)):
            raise MemberNameError(f"{type(self).__name__} has an attribute {name!r} already")

    def register_parameter(self, name: str, param: ag.Parameter | None) -> None:
        """Adds a parameter; None reserves the name for an optional parameter that is absent."""
        self._check_name(name)
        if param is not None and not isinstance(param, ag.Parameter):
            raise TypeError(f"register_parameter: expected a Parameter or None, got {type(param).__name__}")
        self._parameters[name] = registered("parameter", self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that is not a parameter but moves with the module and, if ``persistent``, is part of
        its state.
        """
        self._check_name(name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"register_buffer: expected a Tensor or None, got {type(tensor).__name__}")
        self._buffers[name] = registered("buffer", self, name, tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a module under a name."""
        self._check_name(name)
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"add_module: expected a Module or None, got {type(module).__name__}")
        self._modules[name] = registered("module", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Calls ``add_module``."""
        self.add_module(name, module)

    # -- walking -----------------------------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yields this module and all below with dotted names, each once, or under each of its names without
        ``remove_duplicate``; ``memo`` is the set of modules that were seen already.
        """
        seen: set[Any] = set() if memo is None else memo
        if remove_duplicate and self in seen:
            return
        seen.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(seen, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """Yields this module and all below, each once."""
        modules: dict[Module, None] = {}
        waiting: list[Module] = [self]
        while waiting:
            module = waiting.pop()
            if module not in modules:
                modules[module] = None
                waiting.extend([child for child in module._modules.values() if child is not None][::-1])
        return iter(modules)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yields the direct children with their names."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yields the direct children."""
        return (module for _, module in self.named_children())

    def _entries(self, table: str, prefix: str, recurse: bool, once: bool) -> Iterator[tuple[str, Any]]:
        """Yields the tensors of a table with dotted names, shared ones under their first name only if ``once``."""
        seen: set[int] = set()
        modules = self.named_modules(None, prefix, once) if recurse else iter([(prefix, self)])
        for path, module in modules:
            for name, tensor in getattr(module, table).items():
                if tensor is not None and not (once and id(tensor) in seen):
                    seen.add(id(tensor))
                    yield (f"{path}.{name}" if path else name), tensor

    def _capture_key(self) -> tuple[Any, ...]:
        """Returns the state that a captured step depends on: each module below with its training flag, each of their
        tensors with its dtype, its device and the flag that it requires grad.
        """
        key: list[Any] = []
        seen: set[int] = set()
        todo: list[Module | None] = [self]
        while todo:
            module = todo.pop()
            if module is None or id(module) in seen:
                continue
            seen.add(id(module))
            if module._modules:
                todo.extend(module._modules.values())
            key += id(module), module.training
            for table in (module._parameters, module._buffers):
                for tensor in table.values() if table else ():
                    if tensor is not None:
                        key += id(tensor), tensor.requires_grad, tensor.dtype, id(tensor.engine)
        return tuple(key)

    def _tensors(self, table: str, recurse: bool) -> Iterator[Any]:
        """Yields the tensors of a table, each once: ``_entries`` without the names."""
        tensors: dict[int, Any] = {}
        for module in self.modules() if recurse else (self,):
            for tensor in getattr(module, table).values():
                if tensor is not None:
                    tensors[id(tensor)] = tensor
        return iter(tensors.values())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, ag.Parameter]]:
        """Yields all parameters with dotted names, each once unless ``remove_duplicate`` is False."""
        return self._entries("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[ag.Parameter]:
        """Yields all parameters, each once."""
        return self._tensors("_parameters", recurse)

    def trainable_parameters(self) -> Iterator[ag.Parameter]:
        """Yields the parameters that require grad."""
        return (p for p in self.parameters() if p.requires_grad)

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yields all buffers with dotted names, each once unless ``remove_duplicate`` is False."""
        return self._entries("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yields all buffers, each once."""
        return self._tensors("_buffers", recurse)

    def get_submodule(self, target: str) -> Module:
        """Returns the module at a dotted path; the empty path is this module. Raises AttributeError if there is
        none.
        """
        module: Any = self
        for name in target.split(".") if target else ():
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"{target!r} of {type(self).__name__} is no module: {name!r} is none")
        return module  # type: ignore[no-any-return]

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts ``module`` at a dotted path; with ``strict`` a module must already be there. Raises AttributeError if a
        module of the path is missing, ValueError for the empty path.
        """
        if not target:
            raise ValueError("the path of the module to set is empty")
        if not isinstance(module, Module):
            raise ValueError(f"set_submodule: expected a Module, got {type(module).__name__}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and name not in parent._modules:
            raise AttributeError(f"{type(parent).__name__} has no module {name!r}")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> ag.Parameter:
        """Returns the parameter at a dotted path. Raises AttributeError if there is none."""
        return self._entry("_parameters", target, "parameter")  # type: ignore[no-any-return]

    def get_buffer(self, target: str) -> Tensor:
        """Returns the buffer at a dotted path. Raises AttributeError if there is none."""
        return self._entry("_buffers", target, "buffer")  # type: ignore[no-any-return]

    def _entry(self, table: str, target: str, what: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in getattr(module, table):
            raise AttributeError(f"{type(module).__name__} has no {what} {name!r}")
        return getattr(module, table)[name]

    # -- state -------------------------------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        """Returns what ``state_dict`` stores under ``_extra_state``; defined by subclasses that have such a state."""
        raise TypeError(f"{type(self).__name__} has no extra state")

    def set_extra_state(self, state: Any) -> None:
        """Takes the value of ``get_extra_state`` from a loaded state; defined by subclasses."""
        raise TypeError(f"{type(self).__name__} has no extra state")

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Returns parameters and persistent buffers by dotted name in an OrderedDict, not copied; shared ones under all
        their names. They are added to ``destination`` if it is given. The values are outside of the gradient graph,
        on the storage of the module's; with ``keep_vars`` they are the parameters and buffers themselves.
        """
        state: dict[str, Any] = OrderedDict() if destination is None else destination
        if destination is None:
            vars(state)["_metadata"] = OrderedDict()
        if hasattr(state, "_metadata"):
            vars(state)["_metadata"][prefix[:-1]] = {"version": self._version}
        for hook in tuple(self._state_hooks.get("state_dict_pre", {}).values()):
            hook(self, prefix, keep_vars)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                state[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                state[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            state[f"{prefix}_extra_state"] = self.get_extra_state()
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in tuple(self._state_hooks.get("state_dict_post", {}).values()):
            changed = hook(self, state, prefix, {"version": 1})
            state = state if changed is None else changed
        return state

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Writes tensors or arrays into parameters and buffers by name; returns (missing_keys, unexpected_keys).

        Everything is checked before anything is written: StateError (a RuntimeError) lists the entries that do not fit.
        With ``strict=False`` missing and unexpected names are not an error; with ``assign`` the tensors of the state
        take the place of the module's, on their devices and in their dtypes.
        """
        state = dict(state_dict)
        modules = list(self.named_modules())
        for path, module in modules:
            prefix = f"{path}." if path else ""
            for hook in tuple(module._state_hooks.get("load_state_dict_pre", {}).values()):
                # The lists of keys and messages are as for PyTorch's hooks, which may fill them.
                missing, unexpected, messages = [], [], []  # type: ignore[var-annotated]
                hook(module, state, prefix, {}, strict, missing, unexpected, messages)
                if messages:
                    raise RuntimeError("; ".join(messages))
        versions = getattr(state_dict, "_metadata", {})
        for path, module in modules:
            module._complete_state(state, f"{path}." if path else "", versions.get(path, {}).get("version"))
        own = self._state_tensors("")
        extra = {
            f"{path}._extra_state" if path else "_extra_state": module
            for path, module in modules
            if type(module).get_extra_state is not Module.get_extra_state
        }
        tensors = {name: value for name, value in state.items() if name not in extra}
        # A hook after loading may clear the lists of keys, so that their check comes after it.
        after = [(m, tuple(m._state_hooks.get("load_state_dict_post", {}).values())) for _, m in modules]
        late = strict and any(hooks for _, hooks in after)
        keys = load_into(type(self).__name__, own, tensors, strict and not late, write=not assign)
        if assign:
            for name in own.keys() & tensors.keys():
                path, _, last = name.rpartition(".")
                holder = self.get_submodule(path)
                given_value = tensors[name]
                value: Any = given_value if isinstance(given_value, Tensor) else Tensor.from_host(given_value)
                old = holder._parameters.get(last)
                if old is None:
                    holder._buffers[last] = value.detach()
                else:
                    same = isinstance(value, ag.Parameter)
                    holder._parameters[last] = value if same else ag.Parameter(value, old.requires_grad)
        for name, module in extra.items():
            if name in state:
                module.set_extra_state(state[name])
            elif strict:
                raise RuntimeError(f"missing: {name}")
            else:
                keys.missing_keys.append(name)
        for module, hooks in after:
            for hook in hooks:
                if hook(module, keys) is not None:
                    raise RuntimeError("a load_state_dict post-hook changes the keys in place and returns None")
        if late and (keys.missing_keys or keys.unexpected_keys):
            problems = [f"missing: {key}" for key in keys.missing_keys]
            problems += [f"unexpected: {key}" for key in keys.unexpected_keys]
            raise StateError(f"the state does not fit {type(self).__name__}:\n    " + "\n    ".join(problems))
        return keys

    def _complete_state(self, state: dict[str, Any], prefix: str, version: int | None) -> None:
        """Adds to a state of an older layout of this module, ``version`` of PyTorch's file, what it lacks."""

    def _state_tensors(self, prefix: str) -> dict[str, Tensor]:
        """Returns the parameters and persistent buffers by dotted name, without the work of hooks."""
        state: dict[str, Tensor] = {}
        for path, module in self.named_modules(None, prefix, False):
            at = f"{path}." if path else ""
            state.update({at + name: p for name, p in module._parameters.items() if p is not None})
            passing = module._non_persistent_buffers_set
            state.update({at + n: b for n, b in module._buffers.items() if b is not None and n not in passing})
        return state

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

    @from_here
    def to(self: M, *args: Any, device: Any = None, dtype: Any = None, **unused: Any) -> M:
        """Moves the module to a device (selector, handle or queue) and its floating tensors to a dtype, in any order,
        or to device and dtype of a tensor; returns the module.

        Parameters stay the same objects, with their gradients, so that an optimizer steps them on; after its first step
        an optimizer has its states on the old device. ``non_blocking`` and ``memory_format`` are accepted.
        """
        for name in unused:
            if name not in ("non_blocking", "memory_format", "tensor"):
                raise TypeError(f"to(): expected a device, a dtype or a tensor, got {name}=")
        values = [*args, unused["tensor"]] if "tensor" in unused else list(args)
        for value in values:
            if isinstance(value, Tensor):
                device, dtype = value.queue, value.dtype
            elif _is_dtype(value):
                dtype = value
            elif value is not None and not isinstance(value, bool):
                device = value
        kind = None if dtype is None else canonical(dtype)
        if kind is not None and not is_floating(kind):
            raise TypeError(f"the parameters of a module are floating; it cannot be converted to {kind}")
        return self._apply(lambda t: moved(t, device, kind if is_floating(t.dtype) else None))

    def _apply(self: M, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> M:
        """Replaces the values of every parameter, with its gradient, and every buffer by ``fn`` of them."""
        done: dict[int, Tensor] = {}
        for module in self.modules() if recurse else [self]:
            for p in module._parameters.values():
                if p is None or id(p) in done:
                    continue
                done[id(p)] = p
                grad = p.grad
                old = p.detach()
                with ag.no_grad():
                    new = fn(old)
                if new is not old and new.storage_id != old.storage_id:
                    p.grad = None
                    p.data = new.detach()
                    if grad is not None:
                        p.grad = moved(grad, p.queue, p.dtype) if grad.shape == p.shape else None
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    if id(buffer) not in done:
                        with ag.no_grad():
                            done[id(buffer)] = fn(buffer)
                    module._buffers[name] = done[id(buffer)]
        return self

    def type(self: M, dst_type: Any) -> M:
        """Converts the floating parameters and buffers to a dtype; returns the module."""
        return self.to(dtype=dst_type)

    def half(self: M) -> M:
        """Calls ``to("float16")``."""
        return self.to(dtype="float16")

    def bfloat16(self: M) -> M:
        """Calls ``to("bfloat16")``."""
        return self.to(dtype="bfloat16")

    def float(self: M) -> M:
        """Calls ``to("float32")``."""
        return self.to(dtype="float32")

    def double(self: M) -> M:
        """Calls ``to("float64")``."""
        return self.to(dtype="float64")

    def cpu(self: M) -> M:
        """Calls ``to("cpu")``."""
        return self.to("cpu")

    def cuda(self: M, device: Any = None) -> M:
        """Moves the module to a GPU, the first one or the one of that number: ``to("gpu:1")``."""
        return self.to("gpu" if device is None else f"gpu:{device}" if isinstance(device, int) else device)

    def xpu(self: M, device: Any = None) -> M:
        """Calls ``cuda``: a GPU of any manufacturer."""
        return self.cuda(device)

    def to_empty(self: M, *, device: Any, recurse: bool = True) -> M:
        """Moves the module to ``device`` without its values, which are undefined afterwards."""
        queue = queue_of(device)
        return self._apply(lambda t: Tensor.empty(t.shape, t.dtype, queue=queue, persistent=True), recurse)

    def share_memory(self: M) -> M:
        """Raises an error: tensors of a device cannot be shared between processes."""
        raise TypeError(f"{type(self).__name__}.share_memory(): send state_dict() to the other process instead")

    def __deepcopy__(self: M, memo: dict[int, Any]) -> M:
        count_module()
        # Tensors hold their queue, which cannot be copied; their values can.
        for module in self.modules():
            for table in (module._parameters, module._buffers):
                for old in table.values():
                    if old is not None and id(old) not in memo:
                        count_tensor(old.shape, old.dtype)
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
        if not isinstance(mode, bool):
            raise ValueError(f"train(): expected True or False, got {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: M) -> M:
        """Sets evaluation mode: dropout has no effect, batch normalization uses its running statistics."""
        return self.train(False)

    @changes_gradients
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
        """Calls ``requires_grad_(False)``."""
        return self.requires_grad_(False)

    def unfreeze(self: M) -> M:
        """Calls ``requires_grad_(True)``."""
        return self.requires_grad_(True)

    def apply(self: M, fn: Callable[[Module], Any]) -> M:
        """Calls ``fn`` on all modules below and then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # -- hooks -------------------------------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(module, args)`` before forward; its result, if not None, replaces the positional arguments.

        ``with_kwargs``: ``hook(module, args, kwargs)``, which may return a new pair (args, kwargs). ``prepend`` puts
        the hook before the others.
        """
        options = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return RemovableHandle(self._forward_pre_hooks, hook, prepend, options)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Calls ``hook(module, args, output)`` after forward, or ``hook(module, args, kwargs, output)``; its result, if
        not None, replaces the output. ``always_call``: also if forward raised an error, with None for the output.
        """
        options = [self._forward_hooks_with_kwargs] if with_kwargs else []
        options += [self._forward_hooks_always_called] if always_call else []
        return RemovableHandle(self._forward_hooks, hook, prepend, options)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(module, grad_input, grad_output)``, tuples with None for missing gradients, in the backward
        pass.

        A returned tuple replaces ``grad_input``.
        """
        return RemovableHandle(self._backward_hooks, hook, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(module, grad_output)`` before the backward pass of the module; a returned tuple replaces the
        gradients.
        """
        return RemovableHandle(self._backward_pre_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``register_full_backward_hook``: PyTorch's form of this name sees a part of the gradients only."""
        return self.register_full_backward_hook(hook)

    def _state_hook(self, kind: str, hook: Callable[..., Any]) -> RemovableHandle:
        return RemovableHandle(self._state_hooks.setdefault(kind, {}), hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, prefix, keep_vars)`` before ``state_dict`` reads the module."""
        return self._state_hook("state_dict_pre", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, state_dict, prefix, local_metadata)``, which changes the dict in place, after
        ``state_dict`` has read the module.
        """
        return self._state_hook("state_dict_post", hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return self._state_hook("state_dict_post", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)``, which changes the dict in place, before a state is checked and loaded.
        """
        return self._state_hook("load_state_dict_pre", hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return self._state_hook("load_state_dict_pre", hook if with_module else lambda module, *rest: hook(*rest))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls ``hook(module, incompatible_keys)``, which may change the lists of keys, after a state was loaded."""
        return self._state_hook("load_state_dict_post", hook)

    @overload
    def compile(self, sample: Any, /, *samples: Any) -> Callable[..., Any]: ...
    @overload
    def compile(self, **options: Any) -> None: ...
    def compile(self, *samples: Any, **options: Any) -> Callable[..., Any] | None:
        """Fuses the ops of ``forward`` in place, as PyTorch's ``module.compile()`` does, with the options of
        ``nc.compile``; gradients, hooks and other shapes work as before.

        With ``samples``, captures the forward pass for inputs like them, and returns a function that replays it without
        Python per op. It computes without gradients and in the current mode and reads the current values of parameters
        and buffers. It raises CaptureError for other shapes or dtypes, and after a mode has changed or a tensor has
        been replaced.
        """
        if options.keys() & {"optimizer", "loss", "metrics"}:
            raise TypeError(
                "compile: a model has no optimizer and no loss; write netcl.trainer.Trainer(model, "
                "AdamW(model.parameters()), loss_fn=...).fit(loader, epochs=10)"
            )
        if not samples:
            compiled = compiled_form(self, **options)
            if compiled is not self and "forward" not in vars(self):  # else a forward of the user's
                # Copies of the module share the compiled function; a pickled one has the forward of its class.
                object.__setattr__(self, "forward", MethodType(type(compiled).forward, self))
            return None
        if options:
            raise TypeError(
                f"compile: expected samples to capture or options of nc.compile, got both ({', '.join(options)}); "
                "write model.compile(sample), or model.compile(fullgraph=True)"
            )

        def forward(*inputs: Any) -> Any:
            with ag.no_grad():
                return self(*inputs)

        captured = CompiledFunction(forward).capture(*samples)
        return forward if captured is None else captured.replay

    # -- text --------------------------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        """Returns the table of layers that a notebook shows."""
        from netcl.nn.html_table import html_table

        return html_table(self)

    def summary(self, input_shape: Iterable[int], dtype: str = "float32") -> Summary:
        """Returns a table of the layers for an input of ``input_shape`` (with its batch axis) and ``dtype`` (int64 for
        token ids): output shapes, parameters, multiply-adds. It is a text; a notebook shows it as a table.
        """
        from netcl.nn.summary import summary

        return summary(self, tuple(input_shape), dtype)

    def extra_repr(self) -> str:
        """Returns the text between the parentheses in the ``repr`` of a layer."""
        return ""

    def __repr__(self) -> str:
        return text_of(self, [(f"({name}): ", repr(module)) for name, module in self._modules.items()])


def text_of(module: Module, children: Iterable[tuple[str, str]]) -> str:
    """Returns a module's text in PyTorch's form, from its ``extra_repr`` and its children (label, text)."""
    extra = module.extra_repr().splitlines()
    lines = [label + text.replace("\n", "\n  ") for label, text in children]
    if not lines and len(extra) < 2:
        return f"{type(module).__name__}({''.join(extra)})"
    return f"{type(module).__name__}(\n  " + "\n  ".join([*extra, *lines]) + "\n)"


def _is_dtype(value: Any) -> bool:
    """Returns True for a dtype and False for a device; both may be texts."""
    try:
        canonical(value)
    except (DTypeError, TypeError, ValueError):
        return False
    return True


_OF_AUTOCAST = frozenset((("float16", "float32"), ("bfloat16", "float32")))  # inputs and parameters there


def check_precision(layer: object, x: Tensor, parameter: Tensor | None) -> None:
    """Raises DTypeError with the layer's name if the input is of integers or bools, or if one of a floating input and a
    parameter is float64, the other not.
    """
    if parameter is not None and (x.dtype == parameter.dtype or (x.dtype, parameter.dtype) in _OF_AUTOCAST):
        return
    if not is_floating(x.dtype):
        dtype = "float32" if parameter is None else str(parameter.dtype)
        if is_floating(dtype):
            name = type(layer).__name__ if "\n" in repr(layer) else repr(layer)
            scaled = (
                " / 255 for an image, as netcl.data.filters.to_float does in a loader" if x.dtype == "uint8" else ""
            )
            raise DTypeError(
                f"{name}: expected an input in {dtype}, got {x.dtype}; write x.astype({dtype!r}){scaled}",
                op=type(layer).__name__,
            )
    elif parameter is not None and "float64" in (x.dtype, parameter.dtype):
        raise DTypeError(
            f"{layer!r} has parameters in {parameter.dtype} and takes no {x.dtype}; convert the input with "
            f"astype({parameter.dtype!r}), or the layer with to(dtype={x.dtype!r})",
            op=type(layer).__name__,
        )


def holds_module(value: Any) -> bool:
    """Returns True for a Module, and for what wraps one as ``module`` and has its ``state_dict``, as DataParallel."""
    return isinstance(getattr(value, "module", value), Module)
