"""safetensors: bytes, which the checksums of netcl cover, and values of the header."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from registry import Run, attack

from formats.judge import Judge
from formats.mutate import byte_edits, edited, json_value
from netcl import nn
from netcl.io import CheckpointError, load_safetensors, save_safetensors

ENVIRONMENT = {"NETCL_DEVICE": "cpu"}
NAMES = ("F32", "F64", "F16", "BF16", "I64", "U16", "I8", "BOOL", "F8_E4M3", "C64", "data_offsets", "__metadata__")


@attack("formats.safetensors.bytes", environment=ENVIRONMENT)
def damaged(run: Run) -> None:
    """A damaged file of netcl is refused, or read as it was saved."""
    path = run.folder / "good.safetensors"
    # The weight of 12 KB has a row, columns and bytes after them in its checksum.
    layers = nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(60, 50)
    save_safetensors(nn.Sequential(*layers), path, {"origin": "attack"})
    good = path.read_bytes()
    state = {name: tensor.to_host() for name, tensor in load_safetensors(path).items()}

    def same(found: Any) -> bool:
        return sorted(found) == sorted(state) and all(
            np.array_equal(found[name].to_host(), value) for name, value in state.items()
        )

    judge = Judge(run, ".safetensors", load_safetensors, good, (CheckpointError,), same)
    for rng in run.cases():
        judge.case(byte_edits(good, rng), lambda edits: edited(good, edits), same=True)


@attack("formats.safetensors.header", environment=ENVIRONMENT)
def headers(run: Run) -> None:
    """A false header is refused, or describes arrays within the file."""
    path = run.folder / "good.safetensors"
    save_safetensors(nn.Linear(5, 4), path, {"origin": "attack"})
    good = path.read_bytes()
    length = int.from_bytes(good[:8], "little")
    header = json.loads(good[8 : 8 + length])
    judge = Judge(run, ".safetensors", load_safetensors, good, (CheckpointError,))
    for rng in run.cases():
        lie = {key: value for key, value in header.items() if key != "__metadata__" or rng.random() < 0.3}
        for _ in range(rng.choice((1, 1, 2, 3))):
            lie = json_value(lie, rng, NAMES)
        try:
            text = json.dumps(lie).encode()
        except RecursionError:  # of three towers on top of each other
            run.count("not written")
            continue
        judge.whole(len(text).to_bytes(8, "little") + text + good[8 + length :])
