"""``.pt``: instructions of the pickle, members of the archive, and bytes, in both formats of PyTorch."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from registry import Run, attack

from formats.judge import Judge
from formats.mutate import byte_edits, edited, instructions, program
from netcl import nn
from netcl.core import Tensor
from netcl.io import CheckpointError, load_torch, save_torch

ENVIRONMENT = {"NETCL_DEVICE": "cpu"}


def state() -> dict[str, Any]:
    """Returns a state with tensors of several dtypes, arrays and plain values."""
    return {
        **nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).state_dict(),
        "half": Tensor.from_host(None, np.arange(4, dtype=np.float16)),
        "more": [1, 2.5, None, True, "text", (1, 2), {"a": [3]}],
        "array": np.arange(5, dtype=np.int64),
    }


def archive(members: Sequence[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Returns an archive of these members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        for name, data in members:
            made.writestr(zipfile.ZipInfo(name), data, compression)
    return file.getvalue()


def members(path: Path) -> list[tuple[str, bytes]]:
    """Returns the members of an archive."""
    with zipfile.ZipFile(path) as opened:
        return [(info.filename, opened.read(info)) for info in opened.infolist()]


@attack("formats.torch.bytes", environment=ENVIRONMENT)
def bytes_of_archives(run: Run) -> None:
    """A damaged file is refused or read."""
    path = run.folder / "good.pt"
    save_torch(state(), path, arrays=True)
    good = path.read_bytes()
    judge = Judge(run, ".pt", load_torch, good, (CheckpointError,))
    for rng in run.cases():
        judge.case(byte_edits(good, rng), lambda edits: edited(good, edits))


@attack("formats.torch.pickle", environment=ENVIRONMENT)
def pickles(run: Run) -> None:
    """Other instructions and members, with correct checksums, are refused or read, and nothing is run."""
    path = run.folder / "good.pt"
    save_torch(state(), path, arrays=True)
    good = members(path)
    base = next(instructions(data) for name, data in good if name.endswith("data.pkl"))
    judge = Judge(run, ".pt", load_torch, path.read_bytes(), (CheckpointError,))
    for rng in run.cases():
        made = dict(good)
        if rng.random() < 0.2:
            name = rng.choice(list(made))
            data = made.pop(name)
            renamed = rng.choice((name, "archive/byteorder", "x/data.pkl", "archive/data/0", "../a"))
            made[renamed] = rng.choice((b"", b"big", data * 2, data[:-1], b"little", data))
        packed = zipfile.ZIP_DEFLATED if rng.random() < 0.03 else zipfile.ZIP_STORED

        def build(pieces: Sequence[bytes], made: Any = made, packed: int = packed) -> bytes:
            changed = b"".join(pieces)
            return archive([(n, changed if n.endswith("data.pkl") else d) for n, d in made.items()], packed)

        judge.case(program(base, rng), build)


def legacy() -> list[bytes]:
    """Returns the pieces of a file in the format before PyTorch 1.6."""
    import pickle

    head = [pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    tensor = (
        b"\x80\x02}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n"
        b"X\x01\0\0\x000X\x03\0\0\0cpuK\x04NtQK\0K\x04\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtRs."
    )
    return [*head, tensor, pickle.dumps(["0"], 2), struct.pack("<q4f", 4, 1, 2, 3, 4)]


@attack("formats.torch.legacy", weight=0.5, environment=ENVIRONMENT)
def sequences(run: Run) -> None:
    """A damaged file in the old format is refused or read."""
    pieces = legacy()
    good = b"".join(pieces)
    judge = Judge(run, ".pt", load_torch, good, (CheckpointError,))
    for rng in run.cases():
        if rng.random() < 0.5:
            judge.case(byte_edits(good, rng), lambda edits: edited(good, edits))
            continue
        at = rng.randrange(5)
        made = [*pieces[:at], b"".join(program(instructions(pieces[at]), rng)), *pieces[at + 1 :]]
        judge.whole(b"".join(made))
