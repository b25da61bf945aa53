"""The tensor types of old programs, ``nc.FloatTensor`` and the like: makers of tensors of one dtype."""

from __future__ import annotations

from typing import Any, ClassVar

from netcl.core.dtypes import set_default_dtype
from netcl.core.storage.size import Size
from netcl.core.tensor import factories
from netcl.core.tensor.tensor import Tensor


class _Type(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, Tensor) or instance.dtype != getattr(cls, "dtype", ""):
            return False
        home = getattr(cls, "home", None)
        return home is None or instance.device.type == home


class FloatTensor(metaclass=_Type):
    """Makes tensors of one dtype: of data as ``nc.tensor`` does, or with undefined content of given lengths.

    ``isinstance(x, nc.FloatTensor)`` is True for tensors of the dtype.
    """

    dtype: ClassVar[str] = "float32"
    # The device of a class for one alone, such as torch.cuda.FloatTensor.
    home: ClassVar[str | None] = None

    def __new__(cls, *args: Any, device: Any = None) -> Any:
        device = cls.home if device is None else device
        if len(args) == 1 and not isinstance(args[0], (int, Size)):
            return factories.tensor(args[0], dtype=cls.dtype, device=device)
        return factories.empty(*(args or (0,)), dtype=cls.dtype, device=device)


class DoubleTensor(FloatTensor):
    """As FloatTensor, of float64."""

    dtype = "float64"


class HalfTensor(FloatTensor):
    """As FloatTensor, of float16."""

    dtype = "float16"


class BFloat16Tensor(FloatTensor):
    """As FloatTensor, of bfloat16."""

    dtype = "bfloat16"


class LongTensor(FloatTensor):
    """As FloatTensor, of int64."""

    dtype = "int64"


class IntTensor(FloatTensor):
    """As FloatTensor, of int32."""

    dtype = "int32"


class ShortTensor(FloatTensor):
    """As FloatTensor, of int16."""

    dtype = "int16"


class CharTensor(FloatTensor):
    """As FloatTensor, of int8."""

    dtype = "int8"


class ByteTensor(FloatTensor):
    """As FloatTensor, of uint8."""

    dtype = "uint8"


class BoolTensor(FloatTensor):
    """As FloatTensor, of bool."""

    dtype = "bool"


_BY_NAME = {
    kind.__name__: kind for kind in (FloatTensor, DoubleTensor, HalfTensor, BFloat16Tensor)
}  # of floating dtypes alone


def set_default_tensor_type(t: Any) -> None:
    """Sets the default dtype to that of a floating tensor type, given as the class or by name (``"nc.DoubleTensor"``).

    Raises TypeError for another type. For a default device write ``nc.set_default_device``.
    """
    name = t if isinstance(t, str) else getattr(t, "__name__", "")
    place, _, last = name.rpartition(".")
    if last not in _BY_NAME or place.endswith("cuda") or getattr(t, "home", None):
        raise TypeError(
            f"set_default_tensor_type: expected one of {', '.join(_BY_NAME)}, got {t!r}; write "
            "nc.set_default_dtype(dtype) and nc.set_default_device(device)"
        )
    set_default_dtype(_BY_NAME[last].dtype)
