"""``.netcl``: bytes of the archive, values of its description (hashed again), names and dtypes of its arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from registry import Run, attack

from formats.judge import Judge
from formats.mutate import byte_edits, edited, json_value
from netcl import nn
from netcl.io import CheckpointError, load_checkpoint, load_model, save_checkpoint, save_model, verify
from netcl.io.archive import entry_of, write_archive

ENVIRONMENT = {"NETCL_DEVICE": "cpu"}
DTYPES = ("float32", "float16", "float64", "int64", "int8", "uint16", "uint32", "bool")


def model() -> nn.Module:
    """Returns a model with layers of many kinds, among them some that build others."""
    return nn.Sequential(
        nn.Conv2d(1, 2, 3),
        nn.BatchNorm2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8, 6),
        nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8), 1),
        nn.LSTM(6, 3),
        nn.Dropout(0.1),
    )


def registered() -> list[str]:
    """Returns the names of all classes that a file may name."""
    from netcl.nn import registry

    return sorted(registry._entries)


def parts(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the description and the arrays of a file."""
    with np.load(path) as arrays:
        values = {key: arrays[key] for key in arrays.files if key != "__netcl_meta__"}
        return json.loads(str(arrays["__netcl_meta__"])), values


@attack("formats.netcl.bytes", environment=ENVIRONMENT)
def bytes_of_models(run: Run) -> None:
    """A damaged model is refused, or read as it was saved: the hash covers everything."""
    path = run.folder / "good.netcl"
    save_model(model(), path)
    good = path.read_bytes()
    state = {name: tensor.to_host() for name, tensor in load_model(path).state_dict().items()}

    def same(loaded: nn.Module) -> bool:
        found = loaded.state_dict()
        return list(found) == list(state) and all(
            np.array_equal(found[name].to_host(), value) for name, value in state.items()
        )

    judge = Judge(run, ".netcl", load_model, good, (CheckpointError,), same)
    for rng in run.cases():
        judge.case(byte_edits(good, rng), lambda edits: edited(good, edits), same=True)


@attack("formats.netcl.meta", environment=ENVIRONMENT)
def descriptions(run: Run) -> None:
    """A false description, under a correct hash, is refused or builds a model."""
    path = run.folder / "good.netcl"
    save_model(model(), path)
    meta, values = parts(path)
    names = [*registered(), *meta, *values, *meta["config"]]
    judge = Judge(run, ".netcl", load_model, path.read_bytes(), (CheckpointError,))
    target = run.folder / "built.netcl"
    for rng in run.cases():
        lie, arrays = meta, dict(values)
        for _ in range(rng.choice((1, 1, 2, 4))):
            lie = json_value(lie, rng, names)
        if rng.random() < 0.3 and arrays:
            key = rng.choice(list(arrays))
            arrays[key] = np.zeros(rng.choice(((), (1,), (2, 3), (0, 9))), rng.choice(DTYPES))
        if not isinstance(lie, dict):
            continue
        try:
            write_archive(target, lie, [entry_of(key, value) for key, value in arrays.items()])
        except (CheckpointError, TypeError, UnicodeEncodeError):
            run.count("not written")
            continue
        judge.whole(target.read_bytes())


@attack("formats.netcl.checkpoint", environment=ENVIRONMENT)
def checkpoints(run: Run) -> None:
    """A false checkpoint, under a correct hash, is refused or loaded; a refused one leaves the model as it was."""
    path = run.folder / "good.netcl"
    layer = nn.Linear(3, 2)
    save_checkpoint(layer, path, epoch=1, step=2, extra={"list": [1, (2, 3)], "array": np.arange(3)})
    meta, values = parts(path)

    def read(target: Path) -> None:
        before = {name: tensor.to_host() for name, tensor in layer.state_dict().items()}
        try:
            load_checkpoint(target, layer)
            verify(target)
        except CheckpointError as error:
            changed = [n for n, t in layer.state_dict().items() if not np.array_equal(t.to_host(), before[n])]
            if changed:
                raise RuntimeError(f"a refused checkpoint changed {changed}: {error}") from error
            raise

    judge = Judge(run, ".netcl", read, path.read_bytes(), (CheckpointError,))
    good, target = path.read_bytes(), run.folder / "built.netcl"
    names = [*meta, *values, *meta["tree"]]
    for rng in run.cases():
        if rng.random() < 0.3:
            judge.case(byte_edits(good, rng), lambda edits: edited(good, edits))
            continue
        lie, arrays = json_value(meta, rng, names), dict(values)
        if rng.random() < 0.3:
            key = rng.choice(list(arrays))
            arrays[key] = np.zeros(rng.choice(((), (1,), (2, 3), (624,))), rng.choice(DTYPES))
        if not isinstance(lie, dict):
            continue
        try:
            write_archive(target, lie, [entry_of(key, value) for key, value in arrays.items()])
        except (CheckpointError, TypeError, UnicodeEncodeError):
            run.count("not written")
            continue
        judge.whole(target.read_bytes())
