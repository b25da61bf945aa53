"""Loads the contents of a file into a model: shapes and dtypes are checked first, then one array at a time is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from netcl.core import Tensor
from netcl.io.errors import CheckpointError
from netcl.nn.module import Module
from netcl.nn.state import IncompatibleKeys, StateError, check_state

Array = np.ndarray[Any, Any]


def placeholder(shape: Sequence[int], dtype: str) -> Array:
    """Returns an array of this shape that takes no memory, for checks; bfloat16, which NumPy lacks, is float32."""
    return np.broadcast_to(np.zeros((), "float32" if dtype == "bfloat16" else dtype), tuple(shape))


def load_into(
    model: Module,
    described: Mapping[str, Array],
    read: Callable[[Iterable[str]], Iterable[tuple[str, Any]]],
    path: str | os.PathLike[str],
    strict: bool,
) -> tuple[dict[str, Tensor], IncompatibleKeys]:
    """Writes the values of ``read(names)`` into the tensors of ``model`` named in ``described`` (placeholders with the
    shapes and dtypes of the file); returns these tensors, and the missing and unexpected names.

    Raises CheckpointError, with nothing written, if they do not fit.
    """
    state = model.state_dict(keep_vars=True)
    try:
        keys = check_state(type(model).__name__, state, described, strict)
    except StateError as error:
        raise CheckpointError(str(error), path) from error
    taken = {name: tensor for name, tensor in state.items() if name in described}
    for name, values in read(taken):
        taken[name].write(values)
    return taken, keys
