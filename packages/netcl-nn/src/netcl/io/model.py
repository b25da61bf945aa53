"""save_model and load_model: architecture and weights in one ``.netcl`` file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from netcl.core import Tensor
from netcl.core.device import device
from netcl.core.errors import from_here
from netcl.io.archive import Archive, entry_of, write_archive
from netcl.io.budget import Budget
from netcl.io.errors import CheckpointError
from netcl.nn import init
from netcl.nn.module import Module
from netcl.nn.placement import metered, queue_of
from netcl.nn.registry import UnknownModuleError, from_config, to_config

FORMAT = "netcl.single-file"
VERSIONS = (2, 3)


@from_here
def save_model(model: Module, path: str | os.PathLike[str]) -> None:
    """Writes the architecture of the model and its state to exactly ``path``; an existing file is replaced atomically.

    Any graph of registered classes can be saved (``netcl.nn.register``), with its modes (train or eval), frozen
    parameters, and ``model.about``, a dict of plain values. Raises CheckpointError for a class that is not registered,
    a full disk, or a folder without write access.
    """
    try:
        config = to_config(model)
    except (UnknownModuleError, RecursionError) as error:
        raise CheckpointError(f"the model cannot be saved: {error}", path) from error
    state = model.state_dict(keep_vars=True)
    meta = {"format": FORMAT, "version": 3, "type": type(model).__name__, "config": config}
    meta["frozen"] = [name for name, p in model.named_parameters() if not p.requires_grad]
    meta["evaluating"] = [name for name, module in model.named_modules() if not module.training]
    if isinstance(model.about, dict):
        meta["about"] = model.about
    write_archive(path, meta, [entry_of(name, tensor) for name, tensor in state.items()])


@from_here
def load_model(
    path: str | os.PathLike[str], queue: Any = None, pool: Any = None, *, budget: Budget | None = None
) -> Module:
    """Returns the model of a file that ``save_model`` wrote, on ``queue`` (a queue, handle or selector; None: the
    active device).

    Its tensors are allocated from ``pool`` if one is given. No code of the file runs, and only registered classes are
    built, within ``budget`` (None: ``Budget()``). Raises CheckpointError for a file that is damaged, truncated, of
    another format, names an unknown class, or describes far more layers or elements than a file of its size holds.
    """
    with Archive(path, {FORMAT: VERSIONS}, budget) as archive:
        names = _names(archive)
        model = _built(archive, queue)
        state = model.state_dict(keep_vars=True)
        _check(archive, names, state)
        about = archive.meta.get("about")
        if about is not None and not isinstance(about, dict):
            raise archive.refuse(f"has no dict under 'about' but {str(about)[:80]!r}")
        frozen, evaluating = _listed(archive, "frozen"), _listed(archive, "evaluating")

        def place(name: str, tensor: Tensor) -> Tensor:
            dtype = archive.arrays[names[name]][1] if name in names else tensor.dtype
            if pool is None and dtype == tensor.dtype:
                return tensor
            with archive.reading.at(f"the array {names.get(name, name)!r}"):
                return Tensor.from_shape(tensor.queue, tensor.shape, dtype, pool=pool, fill=None, persistent=True)

        model.replace_tensors(place)
        targets = {names[name]: tensor for name, tensor in model.state_dict(keep_vars=True).items()}
        for key, array in archive.checked():
            targets[key].write(array)
        for name, parameter in model.named_parameters():
            parameter.requires_grad = name not in frozen
        for name, module in model.named_modules():
            module.training = name not in evaluating
        if about is not None:
            model.about = about
        return model


def _listed(archive: Archive, key: str) -> list[Any]:
    names = archive.meta.get(key, [])
    if not isinstance(names, list):
        raise archive.refuse(f"has no list of names under {key!r} but {names!r}")
    return names


def _names(archive: Archive) -> dict[str, str]:
    """Maps keys of the state to keys of the file: version 2 writes ``layer:param`` for version 3's ``layer.param``."""
    if archive.meta["version"] == 2:
        return {key.replace(":", "."): key for key in archive.arrays}
    return {key: key for key in archive.arrays}


def _built(archive: Archive, queue: Any) -> Module:
    config = archive.meta.get("config")
    with ExitStack() as stack:
        if queue is not None:
            stack.enter_context(device(Tensor.empty((0,), queue=queue_of(queue)).device))
        # A hostile config cannot build many more layers and elements than the file has.
        stack.enter_context(metered(archive.reading.meter))
        stack.enter_context(init.skipped())
        stack.enter_context(archive.reading.at("the model cannot be built"))
        return from_config(config)  # type: ignore[arg-type]


def _check(archive: Archive, names: Mapping[str, str], state: Mapping[str, Tensor]) -> None:
    problems = [f"missing: {name} {tensor.shape}" for name, tensor in state.items() if name not in names]
    problems += [f"unexpected: {name}" for name in names if name not in state]
    for name, tensor in state.items():
        if name in names and archive.arrays[names[name]][0] != tensor.shape:
            problems.append(
                f"shape of {name}: {archive.arrays[names[name]][0]} in the file, {tensor.shape} in the model"
            )
    if problems:
        raise archive.refuse(
            "the arrays do not fit the model that its config builds (was it changed after it was made?):\n    "
            + "\n    ".join(problems)
        )


from_here(globals())
