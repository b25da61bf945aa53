"""Loads a state into a module: everything is checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from netcl.core import Tensor
from netcl.core.dtypes import is_floating
from netcl.core.errors import NetclError


class StateError(NetclError, RuntimeError):
    """A state does not fit a module; the message lists every entry that is missing, unexpected or of another shape or
    kind.
    """


class IncompatibleKeys(NamedTuple):
    """Names of the module that the state lacks, and names of the state that the module lacks."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def check_state(owner: str, own: Mapping[str, Tensor], state: Mapping[str, Any], strict: bool) -> IncompatibleKeys:
    """Compares ``state`` (tensors or arrays by name) with the tensors ``own``; returns missing and unexpected names.

    Raises StateError for shapes that differ, for floating values in place of integers or the reverse, and, if
    ``strict``, for missing and unexpected names.
    """
    missing = [name for name in own if name not in state]
    unexpected = [name for name in state if name not in own]
    problems = []
    if strict:
        problems += [f"missing: {name} {own[name].shape}" for name in missing]
        problems += [f"unexpected: {name}" for name in unexpected]
    for name, target in own.items():
        if name not in state:
            continue
        value = state[name] if isinstance(state[name], Tensor) else np.asarray(state[name])
        if tuple(value.shape) != target.shape:
            problems.append(f"shape of {name}: {tuple(value.shape)} in the state, {target.shape} in the module")
        elif _floating(value) != is_floating(target.dtype):
            problems.append(f"dtype of {name}: {value.dtype} in the state, {target.dtype} in the module")
    if problems:
        raise StateError(f"the state does not fit {owner}:\n    " + "\n    ".join(problems))
    return IncompatibleKeys(missing, unexpected)


def load_into(
    owner: str, own: Mapping[str, Tensor], state: Mapping[str, Any], strict: bool, write: bool = True
) -> IncompatibleKeys:
    """Runs ``check_state``, then, if ``write``, writes ``state`` into the tensors ``own``, converted to their
    dtypes.
    """
    keys = check_state(owner, own, state, strict)
    if not write:
        return keys
    for name, target in own.items():
        if name in state:
            value = state[name]
            target.write(value.detach() if isinstance(value, Tensor) else np.asarray(value))
    return keys


def _floating(value: Any) -> bool:
    if isinstance(value, Tensor):
        return is_floating(value.dtype)
    return bool(value.dtype.kind == "f" or value.dtype.name == "bfloat16")
