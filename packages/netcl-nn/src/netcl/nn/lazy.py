"""Layers that take their input sizes from the first input: the lazy forms of Linear, convolutions and norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.dtypes import get_default_dtype
from netcl.core.errors import ShapeError
from netcl.core.storage import gradients
from netcl.nn import conv, init, linear, norm
from netcl.nn.module import Module
from netcl.nn.placement import queue_of


def _materialize(tensor: Any, final: type[Tensor], shape: Any, device: Any, dtype: Any) -> None:
    """Gives a tensor without a shape its shape, device and dtype, with undefined values, and its final class."""
    queue = tensor.queue if device is None else queue_of(device)
    value = Tensor.empty(tuple(shape), dtype or tensor.dtype, queue=queue, persistent=True)
    flag = tensor.requires_grad
    tensor.__class__ = final
    tensor.data = value
    tensor.requires_grad = flag


class UninitializedParameter(ag.Parameter):
    """A parameter without a shape yet, which its lazy module gives it at the first call, or ``materialize(shape)``."""

    __slots__ = ()

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Makes it a Parameter of ``shape``, with undefined values."""
        _materialize(self, ag.Parameter, shape, device, dtype)

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = "float32") -> UninitializedParameter:
        value = Tensor.empty((0,), dtype or get_default_dtype(), queue=queue_of(device), persistent=True)
        return super().__new__(cls, value)  # type: ignore[return-value]

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = "float32") -> None:
        self.requires_grad = requires_grad
        self.persistent = True


class UninitializedBuffer(Tensor):
    """A buffer without a shape yet; ``materialize(shape)`` gives it one."""

    __slots__ = ()

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Makes it a Tensor of ``shape``, with undefined values."""
        _materialize(self, Tensor, shape, device, dtype)

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        made: UninitializedBuffer = super().__new__(cls)
        return made

    def __init__(
        self, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> None:
        value = Tensor.empty((0,), dtype or get_default_dtype(), queue=queue_of(device), persistent=persistent)
        gradients.make_leaf(self, value)
        self.requires_grad = requires_grad


class LazyModuleMixin:
    """A module that gets the shapes of its parameters at its first call, and then becomes one of ``cls_to_become``.

    ``built(size)`` returns the layer of that class for the size of the input's channels, with its own parameters.
    """

    cls_to_become: ClassVar[type[Module]]
    size: ClassVar[str]

    def has_uninitialized_params(self) -> bool:
        """Returns True before the first call."""
        return isinstance(self, LazyModuleMixin)

    def _start(self, make: Callable[[int], Module], names: tuple[str, ...], device: Any, dtype: Any) -> None:
        """Sets the attributes of the later layer, with parameters that have no shape."""
        module: Any = self
        Module.__init__(module)
        with init.skipped():
            pattern: Any = make(0)
        for name, value in pattern.__dict__.items():
            if name not in module.__dict__:
                object.__setattr__(module, name, value)
        for name, buffer in pattern._buffers.items():
            module.register_buffer(name, buffer)
        for name, parameter in pattern._parameters.items():
            lazy = parameter is not None and name in names
            if lazy:
                parameter = UninitializedParameter(device=device, dtype=dtype)
            module.register_parameter(name, parameter)
        object.__setattr__(module, "_make", make)
        module._make_handle = module.register_forward_pre_hook(LazyModuleMixin._first_call)
        module._load_handle = module.register_load_state_dict_pre_hook(LazyModuleMixin._first_load)

    def channels(self, x: Tensor) -> int:
        """Returns the size of the input that sets the shapes."""
        if x.ndim < 2:
            raise ShapeError(f"{type(self).__name__}: expected x (N, C, ...), got {x.shape}", op=type(self).__name__)
        return x.shape[1]

    @staticmethod
    def _first_call(module: Any, args: tuple[Any, ...]) -> None:
        module._become(module.channels(args[0]))

    @staticmethod
    def _first_load(module: Any, state: Any, prefix: str, *rest: Any) -> None:
        size = module.size_in(state, prefix)
        if size is not None:
            module._become(size)

    def size_in(self, state: Any, prefix: str) -> int | None:
        """Returns the size of the input that a state is for, or None if the state lacks the weight."""
        weight = state.get(f"{prefix}weight")
        return None if weight is None else int(weight.shape[-1])

    def _become(self, size: int) -> None:
        module: Any = self
        made = module._make(size)
        for name, parameter in made._parameters.items():
            if parameter is not None:
                mine = module._parameters[name]
                with ag.no_grad():
                    mine.data = parameter.detach()
        for name, buffer in made._buffers.items():
            module._buffers[name] = buffer
        setattr(module, self.size, getattr(made, self.size))
        for handle in (module._make_handle, module._load_handle):
            handle.remove()
        for name in ("_make", "_make_handle", "_load_handle"):
            module.__dict__.pop(name, None)
        module.__class__ = self.cls_to_become


class LazyLinear(LazyModuleMixin, linear.Linear):
    """Linear with ``in_features`` from the first input."""

    cls_to_become: ClassVar[type[Module]] = linear.Linear
    size = "in_features"

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        def make(size: int) -> Module:
            return linear.Linear(size, out_features, bias, device=device, dtype=dtype)

        self._start(make, ("weight", "bias"), device, dtype)

    def channels(self, x: Tensor) -> int:
        return x.shape[-1]


class _LazyConv(LazyModuleMixin):
    size = "in_channels"
    rank: ClassVar[int]

    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        kind: Any = self.cls_to_become

        def make(size: int) -> Module:
            options = (stride, padding, dilation, groups, bias, padding_mode)
            return kind(size, out_channels, kernel_size, *options, device=device, dtype=dtype)  # type: ignore[no-any-return]

        self._start(make, ("weight", "bias"), device, dtype)

    def channels(self, x: Tensor) -> int:
        if x.ndim not in (self.rank + 1, self.rank + 2):
            raise ShapeError(f"{type(self).__name__}: expected x (N, C, ...), got {x.shape}", op=type(self).__name__)
        return x.shape[-self.rank - 1]

    def size_in(self, state: Any, prefix: str) -> int | None:
        weight = state.get(f"{prefix}weight")
        return None if weight is None else int(weight.shape[1]) * self.groups  # type: ignore[attr-defined]


class LazyConv1d(_LazyConv, conv.Conv1d, cls_to_become=conv.Conv1d):
    """Conv1d with ``in_channels`` from the first input."""


class LazyConv2d(_LazyConv, conv.Conv2d, cls_to_become=conv.Conv2d):
    """Conv2d with ``in_channels`` from the first input."""


class LazyConv3d(_LazyConv, conv.Conv3d, cls_to_become=conv.Conv3d):
    """Conv3d with ``in_channels`` from the first input."""


class _LazyTransposed(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        kind: Any = self.cls_to_become
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}, not {padding_mode!r}')

        def make(size: int) -> Module:
            options = (stride, padding, output_padding, groups, bias, dilation)
            return kind(size, out_channels, kernel_size, *options, device=device, dtype=dtype)  # type: ignore[no-any-return]

        self._start(make, ("weight", "bias"), device, dtype)

    def size_in(self, state: Any, prefix: str) -> int | None:
        weight = state.get(f"{prefix}weight")
        return None if weight is None else int(weight.shape[0])


class LazyConvTranspose1d(_LazyTransposed, conv.ConvTranspose1d, cls_to_become=conv.ConvTranspose1d):
    """ConvTranspose1d with ``in_channels`` from the first input."""


class LazyConvTranspose2d(_LazyTransposed, conv.ConvTranspose2d, cls_to_become=conv.ConvTranspose2d):
    """ConvTranspose2d with ``in_channels`` from the first input."""


class LazyConvTranspose3d(_LazyTransposed, conv.ConvTranspose3d, cls_to_become=conv.ConvTranspose3d):
    """ConvTranspose3d with ``in_channels`` from the first input."""


class _LazyNorm(LazyModuleMixin):
    size = "num_features"

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        kind: Any = self.cls_to_become

        def make(size: int) -> Module:
            return kind(size, eps, momentum, affine, track_running_stats, device=device, dtype=dtype, bias=bias)  # type: ignore[no-any-return]

        self._start(make, ("weight", "bias"), device, dtype)

    def size_in(self, state: Any, prefix: str) -> int | None:
        for name in ("weight", "running_mean"):
            if f"{prefix}{name}" in state:
                return int(state[f"{prefix}{name}"].shape[0])
        return None


class LazyBatchNorm1d(_LazyNorm, norm.BatchNorm1d, cls_to_become=norm.BatchNorm1d):
    """BatchNorm1d with ``num_features`` from the first input."""


class LazyBatchNorm2d(_LazyNorm, norm.BatchNorm2d, cls_to_become=norm.BatchNorm2d):
    """BatchNorm2d with ``num_features`` from the first input."""


class LazyBatchNorm3d(_LazyNorm, norm.BatchNorm3d, cls_to_become=norm.BatchNorm3d):
    """BatchNorm3d with ``num_features`` from the first input."""


class LazyInstanceNorm1d(_LazyNorm, norm.InstanceNorm1d, cls_to_become=norm.InstanceNorm1d):
    """InstanceNorm1d with ``num_features`` from the first input."""


class LazyInstanceNorm2d(_LazyNorm, norm.InstanceNorm2d, cls_to_become=norm.InstanceNorm2d):
    """InstanceNorm2d with ``num_features`` from the first input."""


class LazyInstanceNorm3d(_LazyNorm, norm.InstanceNorm3d, cls_to_become=norm.InstanceNorm3d):
    """InstanceNorm3d with ``num_features`` from the first input."""
