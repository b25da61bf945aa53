"""Images as tensors: transforms of netcl.data read them through the host and write results to their device."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.core.process.grad_mode import is_grad_enabled
from netcl.data.transforms import register_image_type

Array = npt.NDArray[Any]


def tensor_of(array: Array, like: Tensor | None = None) -> Tensor:
    """Returns an array as a tensor of the same dtype, on the device of ``like``, by default on the active one."""
    plain = np.ascontiguousarray(np.asarray(array).view(np.ndarray))
    dtype = str(plain.dtype)
    if like is None:
        return Tensor.from_host(plain, dtype=dtype)
    if like.dtype == "bfloat16" and dtype == "float32":
        dtype = "bfloat16"
    return Tensor.from_host(like.queue, plain, dtype=dtype)


def _read(image: Tensor) -> Array:
    if image.requires_grad and is_grad_enabled():
        raise UnsupportedError(
            "transforms are computed on the host and have no gradients: give them image.detach(), or work in no_grad()"
        )
    values: Array = image.to_host()
    return values


register_image_type(Tensor, _read, tensor_of)
