"""Writing what a file held into a model: all is checked first, and the error names the file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from netcl.core import Tensor
from netcl.io.errors import CheckpointError
from netcl.nn.module import Module
from netcl.nn.state import StateError


def load_fitting(model: Module, state: Any, path: str | os.PathLike[str], strict: bool) -> None:
    """Writes ``state`` into ``model``; CheckpointError, with nothing written, where it is no state or does not fit."""
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        kinds = f"the keys {', '.join(map(str, state))}" if isinstance(state, Mapping) else f"a {type(state).__name__}"
        raise CheckpointError(
            f"holds no state of a model but {kinds[:300]}; load it without a model and pass the part that is one", path
        )
    try:
        model.load_state_dict(state, strict=strict)
    except StateError as error:
        raise CheckpointError(str(error), path) from error
