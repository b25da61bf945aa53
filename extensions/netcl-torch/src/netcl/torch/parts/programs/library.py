"""torch.library and torch.ops: operators that a program defines in Python, with their gradients."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from netcl import autograd as ag
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.torch.parts import trees

TORCH_NAMES = (
    "CustomOpDef", "Library", "custom_op", "define", "impl", "impl_abstract", "register_autograd", "register_fake",
    "register_kernel", "register_vmap",
)  # fmt: skip

_ops: dict[str, CustomOpDef] = {}
# Keys of dispatch for any device; kernels of "CompositeImplicitAutograd" are recorded as they are.
_ANY = ("CompositeExplicitAutograd", "default")
_RECORDED = "CompositeImplicitAutograd"


def _kinds(device_types: Any) -> Sequence[str]:
    return ["default"] if device_types is None else [device_types] if isinstance(device_types, str) else device_types


class KernelMissingError(UnsupportedError, NotImplementedError):
    """An operator has no function for the device of its tensors."""


class CustomOpDef:
    """An operator: a function of tensors by device type, and the function of its gradients."""

    def __init__(self, name: str) -> None:
        if name.count("::") != 1:
            raise ValueError(f"{name}: expected a name with a namespace, such as 'mylib::{name}'")
        self._qualname = name
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._backward: Callable[..., Any] | None = None
        self._setup_context: Callable[..., Any] | None = None
        _ops[name] = self

    @property
    def default(self) -> CustomOpDef:
        """The operator itself, which has one signature."""
        return self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Sets the function for tensors of some device types; a decorator without ``fn``."""

        def register(fn: Any) -> Any:
            for kind in _kinds(device_types):
                self._kernels[kind] = fn
            return fn

        return register if fn is None else register(fn)

    def register_fake(self, fn: Any = None, /) -> Any:
        """Returns the function: shapes of results are known when they are computed, so it is not called."""
        return fn if fn is not None else lambda function: function

    def register_vmap(self, func: Any = None, /) -> Any:
        """Returns the function, which is not called: ``vmap`` of an operator in Python calls its function."""
        return self.register_fake(func)

    def register_autograd(self, backward: Any, /, *, setup_context: Any = None) -> None:
        """Sets ``backward(ctx, *grads)``, which returns a gradient or None for each argument, and
        ``setup_context(ctx, inputs, output)``, which saves tensors for it.
        """
        self._backward, self._setup_context = backward, setup_context

    def _kernel(self, leaves: Sequence[Any]) -> Callable[..., Any]:
        types = [leaf.device.type for leaf in leaves if isinstance(leaf, Tensor)]
        for kind in (*types[:1], *_ANY):
            if kind in self._kernels:
                return self._kernels[kind]
        name, there = self._qualname, list(self._kernels)
        raise KernelMissingError(f"{name}: expected a kernel for {types[:1] or 'no tensors'}, got {there}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _RECORDED in self._kernels:
            return self._kernels[_RECORDED](*args, **kwargs)
        leaves, form = trees.tree_flatten((args, kwargs))
        kernel = self._kernel(leaves)
        if not any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves):
            return kernel(*args, **kwargs)
        bound = inspect.signature(kernel).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise UnsupportedError(f"{self._qualname}: keyword-only arguments have no gradients here; pass positions")
        leaves, form = trees.tree_flatten(bound.args)
        return self._recorded(kernel, form).apply(*leaves)

    def _recorded(self, kernel: Callable[..., Any], form: trees.TreeSpec) -> Any:
        """Returns the Function that calls ``kernel`` with arguments of a structure."""
        own = self

        class Recorded(ag.Function):
            @staticmethod
            def forward(ctx: Any, *leaves: Any) -> Any:
                inputs = form.unflatten(leaves)
                output = kernel(*inputs)
                ctx.needs_input_grad = form.unflatten(ctx.needs_input_grad)
                if own._setup_context is not None:
                    own._setup_context(ctx=ctx, inputs=inputs, output=output)
                return output

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                if own._backward is None:
                    raise RuntimeError(
                        f"Trying to backward through {own._qualname} but no autograd formula was registered; write "
                        f"torch.library.register_autograd({own._qualname!r}, backward, setup_context=...)"
                    )
                made = own._backward(ctx, *grads)
                parts = made if isinstance(made, tuple) else (made,)
                if len(parts) != form.num_children:
                    raise RuntimeError(
                        f"{own._qualname}: expected {form.num_children} gradients from its backward, got {len(parts)}"
                    )
                rows = (trees._broadcast_to_and_flatten(part, spec) for part, spec in zip(parts, form.children_specs))
                return tuple(leaf for row in rows for leaf in row or ())

        Recorded.__name__ = own._qualname
        return Recorded


def custom_op(
    name: str,
    fn: Any = None,
    /,
    *,
    mutates_args: Any,
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Makes an operator ``namespace::name`` of a function, which ``torch.ops.namespace.name`` calls too; a decorator
    without ``fn``. The function must not return one of its arguments.
    """

    def define(fn: Any) -> CustomOpDef:
        op = CustomOpDef(name)
        op.register_kernel(device_types, fn)
        op.__name__ = fn.__name__  # type: ignore[attr-defined]
        op.__doc__ = fn.__doc__
        return op

    return define if fn is None else define(fn)


def _op(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    if op not in _ops:
        raise RuntimeError(f"operator {op} does not exist; define it with torch.library.custom_op")
    return _ops[op]


def register_fake(op: Any, func: Any = None, /, **options: Any) -> Any:
    """``CustomOpDef.register_fake`` of an operator or a name."""
    return _op(op).register_fake(func)


impl_abstract = register_fake


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """``CustomOpDef.register_vmap`` of an operator or a name."""
    return _op(op).register_vmap(func)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """``CustomOpDef.register_kernel`` of an operator or a name."""
    return _op(op).register_kernel(device_types, func)


def register_autograd(op: Any, backward: Any, /, *, setup_context: Any = None, lib: Any = None) -> None:
    """``CustomOpDef.register_autograd`` of an operator or a name."""
    _op(op).register_autograd(backward, setup_context=setup_context)


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Makes an operator without a function; ``impl`` gives it one."""
    CustomOpDef(qualname)


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """Sets the function of an operator for device types; a decorator without ``func``."""
    if isinstance(qualname, Library):
        return lambda func: qualname.impl(types, func)
    return _op(qualname).register_kernel(types, func)


class Library:
    """The operators of a namespace: ``define("name(Tensor x) -> Tensor")`` and ``impl("name", fn, "CPU")``."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "FRAGMENT"):
            raise UnsupportedError(f"Library: expected kind 'DEF' or 'FRAGMENT', got {kind!r}: {ns!r} is PyTorch's own")
        self.ns: str = ns
        self.kind: str = kind
        self.dispatch_key: str = dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Makes the operator of a schema and returns its name."""
        name = schema.partition("(")[0].strip()
        CustomOpDef(f"{self.ns}::{name}")
        return name

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> Any:
        """Sets the function of an operator for a key: "CPU", "CUDA", "CompositeExplicitAutograd",
        "CompositeImplicitAutograd"; functions for other keys are not called.
        """
        key = dispatch_key or self.dispatch_key or _RECORDED
        name = str(op_name).rpartition("::")[2]
        return _op(f"{self.ns}::{name}").register_kernel(key if key in (*_ANY, _RECORDED) else key.lower(), fn)


class Namespace:
    """The operators of one namespace, as attributes; any name is a namespace, as in PyTorch."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> CustomOpDef:
        op = _ops.get(f"{self._name}::{name}")
        if op is None:
            raise AttributeError(
                f"torch.ops.{self._name}.{name} is not in netcl: operators of PyTorch and of extensions are those of "
                "its own library; write torch's functions, or a kernel with netcl.KernelSpec",
                name=name,
                obj=self,
            )
        return op
