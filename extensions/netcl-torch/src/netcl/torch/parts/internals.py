"""Private names of PyTorch that programs and libraries use: torch._C, torch._utils, torch._check, dtypes to compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import netcl as nc
from netcl.core import Tensor
from netcl.core.dtypes import DType
from netcl.torch.parts.devices import accelerator

TORCH_NAMES = (
    "_check", "_check_index", "_check_is_size", "_check_not_implemented", "_check_tensor_all", "_check_tensor_all_with",
    "_check_type", "_check_value", "_check_with", "_flatten_dense_tensors", "_get_accelerator", "_get_device_index",
    "_get_tracing_state", "_log_api_usage_once", "_softmax_backward_data", "_take_tensors",
    "_unflatten_dense_tensors",
)  # fmt: skip


class Compared(DType):
    """A dtype that programs compare others with; to make a tensor of one raises DTypeError."""

    __slots__ = ()

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        digits = self.lstrip("abcdefghijklmnopqrstuvwxyz").partition("_")[0]
        return max(int(digits) // 8, 1)

    @property
    def is_floating_point(self) -> bool:
        """True for floats."""
        return self.startswith("float")

    @property
    def is_complex(self) -> bool:
        """True for complex numbers."""
        return self.startswith("complex")

    @property
    def is_signed(self) -> bool:
        """True for dtypes with negative numbers."""
        return not self.startswith(("uint", "float8_e8"))


_DTYPES = (
    "complex32 complex64 complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu "
    "float4_e2m1fn_x2 int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7"
)
globals().update({name: Compared(name) for name in _DTYPES.split()})
chalf: Compared = Compared("complex32")
cfloat: Compared = Compared("complex64")
cdouble: Compared = Compared("complex128")


def _checked(error: type[Exception], cond: Any, message: Callable[[], Any] | str | None = None) -> None:
    """Raises ``error`` with the text, or the text that a function returns, unless ``cond`` is True."""
    if not cond:
        text = message() if callable(message) else message
        raise error(
            "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
            "enhancement request to PyTorch.)"
            if text is None
            else str(text)
        )


def _check(cond: Any, message: Any = None) -> None:
    """Raises RuntimeError unless ``cond`` is True."""
    _checked(RuntimeError, cond, message)


def _check_index(cond: Any, message: Any = None) -> None:
    """Raises IndexError unless ``cond`` is True."""
    _checked(IndexError, cond, message)


def _check_value(cond: Any, message: Any = None) -> None:
    """Raises ValueError unless ``cond`` is True."""
    _checked(ValueError, cond, message)


def _check_type(cond: Any, message: Any = None) -> None:
    """Raises TypeError unless ``cond`` is True."""
    _checked(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Any = None) -> None:
    """Raises NotImplementedError unless ``cond`` is True."""
    _checked(NotImplementedError, cond, message)


def _check_with(error_type: type[Exception], cond: Any, message: Any) -> None:
    """Raises an error of a type unless ``cond`` is True."""
    _checked(error_type, cond, message)


def _check_is_size(i: int, message: Any = None, *, max: int | None = None) -> None:
    """Raises RuntimeError for a number that is no size: negative, or above ``max``."""
    _check(i >= 0 and (max is None or i <= max), message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Any = None) -> None:
    """Raises an error of a type unless all elements of a tensor of bools are True."""
    _checked(error_type, cond.all().item(), message)


def _check_tensor_all(cond: Any, message: Any = None) -> None:
    """Raises RuntimeError unless all elements of a tensor of bools are True."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _log_api_usage_once(event: str) -> None:
    """Does nothing: there is no log of calls."""


def _get_tracing_state() -> None:
    """Returns None: nothing is traced."""


def _get_accelerator(check: bool = False) -> Any:
    """Returns the device of accelerators, "cpu" if there is none."""
    return accelerator.current_accelerator() or nc.device("cpu")


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Returns the number of a device, -1 for the CPU, which must be allowed."""
    if isinstance(device, int):
        return device
    found = None if device is None else nc.device(device)
    if found is None or found.type == "cpu":
        if not (allow_cpu or (optional and found is None)):
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        return -1 if found is not None else 0
    return found.index or 0


def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    """Returns the gradient of a softmax from its result."""
    product = grad_output * output
    made: Tensor = (product - output * product.sum(dim, keepdim=True)).to(input_dtype)
    return made


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """Returns the elements of tensors in one axis."""
    made: Tensor = nc.cat([tensor.reshape(-1) for tensor in tensors])
    return made


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Returns views of ``flat`` with the shapes of tensors."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return tuple(part.view(tensor.shape) for part, tensor in zip(parts, tensors))


def _take_tensors(tensors: Sequence[Tensor], size_limit: int) -> Any:
    """Yields lists of tensors of one dtype, of at most ``size_limit`` bytes if more than one."""
    groups: dict[Any, tuple[list[Tensor], int]] = {}
    for tensor in tensors:
        group, size = groups.get(tensor.dtype, ([], 0))
        length = tensor.numel() * tensor.element_size()
        if group and size + length > size_limit:
            yield group
            group, size = [], 0
        groups[tensor.dtype] = ([*group, tensor], size + length)
    yield from (group for group, _ in groups.values())
