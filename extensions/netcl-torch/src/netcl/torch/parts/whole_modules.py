"""torch.save and torch.load of a whole module: the file has its state, this process keeps its structure."""

from __future__ import annotations

import copy
import errno
import os
import pickle
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO

from netcl import autograd as ag
from netcl import io
from netcl.core import Tensor
from netcl.core.errors import UnsupportedError
from netcl.nn import Module

_TOKEN, _CLASS, _STATE = "netcl.module", "class", "state_dict"


@dataclass(eq=False)
class _Absent:
    """In a structure: a tensor of which the values are in the file, under ``key`` of its state."""

    key: str
    device: Any
    is_parameter: bool
    requires_grad: bool

    def filled(self, tensor: Tensor, keep_device: bool) -> Tensor:
        """The tensor of the copy, on the device that it was saved from unless the caller has chosen one."""
        placed = tensor if keep_device else tensor.to(self.device)
        return ag.Parameter(placed, self.requires_grad) if self.is_parameter else placed


# The classes of modules that ``load`` returns with weights_only=True.
_safe: list[Any] = []
# By the token in a file, the copy of its module without the tensors of its state, or of another object.
_structures: dict[str, Any] = {}


def save(
    obj: Any,
    f: str | os.PathLike[str] | BinaryIO,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """``netcl.save``, which also takes a whole module: the file has its ``state_dict()``, the name of its class and a
    token; this process keeps a copy of the module without these tensors, for ``load``.

    An object of another class in it, or in dicts, lists and tuples, is kept in the same way: the file has the name of
    its class and a token. The file is always a zip archive of pickle's protocol 2, which PyTorch reads since 1.6:
    ``pickle_protocol`` and ``_use_new_zipfile_serialization`` change nothing. Raises UnsupportedError for
    an optimizer, and TypeError for what cannot be copied.
    """
    if pickle_module not in (None, pickle):
        raise UnsupportedError("save writes the instructions of pickle itself: leave pickle_module out")
    if not isinstance(obj, Module):
        io.save(_with_tokens(obj), f)
        return
    state, token = obj.state_dict(keep_vars=True), uuid.uuid4().hex
    memo = {
        id(value): _Absent(key, value.device, isinstance(value, ag.Parameter), value.requires_grad)
        for key, value in reversed(state.items())
        if isinstance(value, Tensor)
    }
    structure = copy.deepcopy(obj, memo)
    name = f"{type(obj).__module__}.{type(obj).__qualname__}"
    io.save({_TOKEN: token, _CLASS: name, _STATE: state}, f)
    _structures[token] = structure


def _with_tokens(obj: Any) -> Any:
    """The object, with tokens in place of the objects that a file cannot hold, of which this process keeps copies."""
    kind = type(obj)
    if kind in (dict, OrderedDict):
        return kind((key, _with_tokens(value)) for key, value in obj.items())
    if kind in (list, tuple):
        return kind([_with_tokens(value) for value in obj])
    if hasattr(obj, "state_dict") or isinstance(obj, (Tensor, type(None), bool, int, float, str, bytes, Mapping)):
        return obj
    try:
        io.save(obj, BytesIO())
    except io.CheckpointError:
        token = uuid.uuid4().hex
        _structures[token] = copy.deepcopy(obj)
        return {_TOKEN: token, _CLASS: f"{kind.__module__}.{kind.__qualname__}"}
    return obj


def _without_tokens(found: Any, weights_only: bool) -> Any:
    """Returns the loaded object, with copies of the objects that tokens stand for."""
    kind = type(found)
    if kind in (list, tuple):
        return kind([_without_tokens(value, weights_only) for value in found])
    if kind not in (dict, OrderedDict):
        return found
    if set(found) != {_TOKEN, _CLASS}:
        return kind((key, _without_tokens(value, weights_only)) for key, value in found.items())
    return copy.deepcopy(_structure_of(found, weights_only, "construct the object again"))


def _structure_of(found: Mapping[str, Any], weights_only: bool, cure: str) -> Any:
    """The copy that this process keeps of a saved object; UnsupportedError if it must not or cannot be given."""
    structure = _structures.get(found[_TOKEN])
    if structure is None:
        raise UnsupportedError(
            f"torch.load: another process has saved this {found[_CLASS]}, and the code of its class is not in the "
            f"file, of which nothing is executed; {cure}"
        )
    if weights_only and type(structure) not in _safe:
        raise UnsupportedError(
            f"torch.load: the file holds a whole {found[_CLASS]}, not a state; write torch.load(f, weights_only=False)"
        )
    return structure


def load(
    f: str | os.PathLike[str] | BinaryIO,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool = True,
    **options: Any,
) -> Any:
    """``netcl.load``; for the file of a whole module, a new module. ``map_location`` may also be a function or a dict,
    as long as it puts all tensors on one device.

    Raises UnsupportedError for such a file with ``weights_only=True`` if the class is not one of the safe globals, and
    for one that another process has saved: nothing in a file is executed, and the class of a module is code. Raises
    FileNotFoundError if there is no such file.
    """
    if isinstance(f, (str, os.PathLike)) and not os.path.exists(f):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(f))
    map_location = _one_device(map_location)
    found = io.load(f, map_location, pickle_module, weights_only=weights_only, **options)
    if not isinstance(found, Mapping) or _STATE not in found or _TOKEN not in found:
        return _without_tokens(found, weights_only)
    cure = f'construct it and write model.load_state_dict(netcl.load(f)["{_STATE}"])'
    structure = _structure_of(found, weights_only, cure)
    placed: dict[int, Any] = {}
    for one in _absent(structure):
        placed[id(one)] = one.filled(found[_STATE][one.key], keep_device=map_location is not None)
    made = copy.deepcopy(structure, placed)
    return made if map_location is None else made.to(map_location)  # also the tensors that are not in the file


class _Storage:
    """The storage that a function for ``map_location`` gets: it returns it, or the one that it has made of it."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device

    def cpu(self) -> _Storage:
        """The storage on the CPU."""
        return _Storage()

    def cuda(self, device: Any = None, non_blocking: bool = False) -> _Storage:
        """The storage on a GPU."""
        return _Storage("cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else str(device))

    def to(self, *, device: Any, non_blocking: bool = False) -> _Storage:
        """The storage on a device."""
        return _Storage(str(device))


def _one_device(map_location: Any) -> Any:
    """The device of a ``map_location`` of any of PyTorch's kinds; UnsupportedError if it puts tensors on several."""
    if isinstance(map_location, Mapping):
        devices = {str(device) for device in map_location.values()}
        if len(devices) > 1:
            raise UnsupportedError(
                f"torch.load: map_location puts tensors on {', '.join(sorted(devices))}; write one device for all, and "
                "move tensors with .to(device)"
            )
        return devices.pop() if devices else None
    if not callable(map_location) or hasattr(map_location, "manager"):
        return map_location
    placed = map_location(_Storage(), "cpu")
    return placed.device if isinstance(placed, _Storage) else placed


def _absent(structure: Module) -> list[_Absent]:
    """The tensors that a structure lacks, each once."""
    tables = [table for module in structure.modules() for table in (module._parameters, module._buffers)]
    found: dict[int, Any] = {id(one): one for table in tables for one in table.values() if isinstance(one, _Absent)}
    return list(found.values())


def get_safe_globals() -> list[Any]:
    """The classes that ``add_safe_globals`` has been given."""
    return list(_safe)


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Lets ``load`` return modules of these classes also with ``weights_only=True``; nothing in a file is executed."""
    _safe.extend(safe_globals)


def clear_safe_globals() -> None:
    """Forgets the classes of ``add_safe_globals``."""
    _safe.clear()


@contextmanager
def safe_globals(safe_globals: Sequence[Any]) -> Iterator[None]:
    """A block with these safe globals in addition."""
    before = list(_safe)
    _safe.extend(safe_globals)
    try:
        yield
    finally:
        _safe[:] = before
