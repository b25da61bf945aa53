"""``nc.save`` and ``nc.load``: PyTorch's call forms over the reader and the writer of ``.pt`` files."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Any, BinaryIO

from netcl.core import Tensor
from netcl.core.errors import UnsupportedError, from_here
from netcl.io.budget import Budget
from netcl.io.torch import load_torch, read_torch
from netcl.io.torch_writer import save_torch, write_torch


@from_here
def save(obj: Any, f: str | os.PathLike[str] | BinaryIO, pickle_module: Any = None, pickle_protocol: int = 2) -> None:
    """Writes tensors, arrays of numbers, plain values, and dicts, lists and tuples of them to a path or an open binary
    file, in the format of ``torch.save``.

    A path is replaced atomically. The file holds data only, so a module or an optimizer is refused with
    UnsupportedError: save its ``state_dict()``. Raises CheckpointError for other objects, and for a file that cannot be
    written.

    >>> file = io.BytesIO()
    >>> save({"weight": Tensor.ones((2,)), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> load(file, map_location="cpu")["epoch"]
    3
    """
    if pickle_module is not None or pickle_protocol != 2:
        raise UnsupportedError(
            "save writes the instructions of protocol 2 itself: leave pickle_module and protocol out"
        )
    if hasattr(obj, "state_dict") and not isinstance(obj, (Tensor, Mapping)):
        raise UnsupportedError(
            f"save: a {type(obj).__name__} is code as well as data, and files of netcl hold no code; write "
            "nc.save(x.state_dict(), path), later x.load_state_dict(nc.load(path))"
        )
    if isinstance(f, (str, os.PathLike)):
        save_torch(obj, f, arrays=True)
    elif hasattr(f, "seekable") and f.seekable():
        write_torch(obj, f, _name_of(f), arrays=True)
    else:  # a pipe, or a member of a zip file
        whole = io.BytesIO()
        write_torch(obj, whole, _name_of(f), arrays=True)
        f.write(whole.getvalue())


@from_here
def load(
    f: str | os.PathLike[str] | BinaryIO,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
    budget: Budget | None = None,
) -> Any:
    """Returns the object that ``nc.save`` or ``torch.save`` wrote to a path or an open binary file.

    ``map_location``: a selector, ``nc.device``, handle or queue for the tensors; None is the active device. Nothing in
    a file is executed, also with ``weights_only=False``: a file with other objects than tensors, plain values and
    containers raises CheckpointError. ``mmap`` changes nothing; ``budget`` limits what the file may take. Raises
    UnsupportedError for functions and dicts as ``map_location``, DeviceNotFoundError if there is no such device.
    """
    if pickle_module is not None:
        raise UnsupportedError("load executes nothing in a file, so it uses no pickle module: leave pickle_module out")
    if isinstance(map_location, Mapping) or callable(map_location) and not hasattr(map_location, "manager"):
        raise UnsupportedError(
            f"load: expected one device for all tensors as map_location, got a {type(map_location).__name__}; write "
            'map_location="cpu", or the selector of another device'
        )
    if isinstance(f, (str, os.PathLike)):
        return load_torch(f, queue=map_location, budget=budget)
    data = f.read()
    return read_torch(io.BytesIO(data), len(data), _name_of(f), queue=map_location, budget=budget)


def _name_of(file: Any) -> str:
    return str(getattr(file, "name", f"<{type(file).__name__}>"))


from_here(globals())
