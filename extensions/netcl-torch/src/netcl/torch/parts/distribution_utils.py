"""torch.distributions.utils: probabilities and logits, and triangles of matrices as vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import netcl as nc
from netcl.core import Tensor


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Returns tensors and numbers as tensors of one shape; numbers take dtype and device of the first tensor."""
    if not all(isinstance(value, (Tensor, int, float)) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    first = next((value for value in values if isinstance(value, Tensor)), None)
    options: dict[str, Any] = (
        {"dtype": nc.get_default_dtype()} if first is None else {"dtype": first.dtype, "device": first.device}
    )
    tensors = [value if isinstance(value, Tensor) else nc.tensor(value, **options) for value in values]
    made: tuple[Tensor, ...] = tuple(nc.broadcast_tensors(*tensors))
    return made


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Returns the probabilities of logits: along the last axis, or with ``is_binary`` for each element."""
    made: Tensor = nc.sigmoid(logits) if is_binary else nc.softmax(logits, -1)
    return made


def clamp_probs(probs: Tensor) -> Tensor:
    """Returns probabilities in [eps, 1 - eps] of their dtype."""
    eps = nc.finfo(probs.dtype).eps
    made: Tensor = probs.clamp(min=eps, max=1 - eps)
    return made


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Returns the logits of probabilities along the last axis, or with ``is_binary`` of each element."""
    clamped = clamp_probs(probs)
    made: Tensor = nc.log(clamped) - nc.log1p(-clamped) if is_binary else nc.log(clamped)
    return made


class lazy_property:
    """A property that is computed at its first use, with gradients, and is an attribute of the object from then on."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped: Callable[[Any], Any] = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return property(self.wrapped)
        with nc.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def _triangle(n: int, diag: int) -> tuple[Any, Any]:
    rows, columns = nc.tril_indices(n, n, diag)
    return rows, columns


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Returns the elements of lower triangles (..., n, n) in the order of rows; ``diag`` as in ``tril``."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = (part.to(mat.device) for part in _triangle(n, diag))
    made: Tensor = mat[..., rows, columns]
    return made


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Returns the matrices (..., n, n) with the elements of vectors as lower triangles, in the order of rows."""
    length = vec.shape[-1]
    size = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    n = round(size)
    if n - size > nc.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as the lower triangular part of a "
            "square D x D matrix."
        )
    rows, columns = (part.to(vec.device) for part in _triangle(n, diag))
    made: Tensor = vec.new_zeros((*vec.shape[:-1], n, n))
    made[..., rows, columns] = vec
    return made
