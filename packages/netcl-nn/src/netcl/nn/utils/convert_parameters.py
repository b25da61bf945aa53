"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.errors import ShapeError


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Returns the elements of all parameters, one after another, as a vector with their gradients."""
    return ag.cat([ag.reshape(p, (p.size,)) for p in parameters], axis=0)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Writes a vector of ``parameters_to_vector`` into the parameters."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters: expected a tensor, got {type(vec).__name__}")
    tensors = list(parameters)
    total = sum(p.size for p in tensors)
    if vec.shape != (total,):
        raise ShapeError(f"vector_to_parameters: the parameters have {total} elements, the vector {vec.shape}")
    offset = 0
    with ag.no_grad():
        for p in tensors:
            p.write(ag.reshape(ag.narrow(vec.detach(), 0, offset, p.size), p.shape))
            offset += p.size
