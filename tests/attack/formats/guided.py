"""Mutants that are led by what they reach: hypothesis keeps and changes the edits that run more lines of a reader.

The score of a mutant (``hypothesis.target``) is the number of lines of the readers that it runs beyond the undamaged
file's, counted by a trace of these modules alone. It works on every Python and needs no instrumented build.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from registry import Run, attack

from formats.judge import Judge
from formats.mutate import NUMBERS, Edit, edited
from formats.onnx_files import graph, library
from formats.onnx_files import read as read_onnx
from formats.torch_files import state
from netcl import nn
from netcl.data import NpyDataset
from netcl.data.readers import read_idx
from netcl.io import CheckpointError, load_model, load_safetensors, load_torch, save_model, save_safetensors, save_torch

ENVIRONMENT = {"NETCL_DEVICE": "cpu"}
EXAMPLES = 60
# Folders of modules with lines that count.
READERS = tuple(str(Path(name.__code__.co_filename).parent) for name in (load_model, read_idx))


def missing() -> str:
    """Returns the name of the package if it is missing."""
    return "" if importlib.util.find_spec("hypothesis") else "the package hypothesis"


def lines_of(work: Callable[[], Any]) -> tuple[Any, set[tuple[str, int]]]:
    """Returns the result of ``work`` and the lines of the readers that it ran."""
    found: set[tuple[str, int]] = set()

    def inside(frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            found.add((frame.f_code.co_filename, frame.f_lineno))
        return inside

    def entered(frame: Any, event: str, argument: Any) -> Any:
        return inside if frame.f_code.co_filename.startswith(READERS) else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        return work(), found
    finally:
        sys.settrace(before)


def guide(run: Run, suffix: str, read: Callable[[Path], Any], good: bytes, allowed: type[Exception]) -> None:
    """Judges mutants of ``good`` in searches of EXAMPLES each; a case is a search."""
    from hypothesis import HealthCheck, Phase, given, seed, settings, target
    from hypothesis import strategies as st

    judge = Judge(run, suffix, read, good, (allowed,))
    _, usual = lines_of(lambda: judge.symptom(good))
    known = set(usual)
    places = st.integers(0, len(good))
    data = st.one_of(
        st.binary(max_size=9),
        st.sampled_from(NUMBERS).flatmap(
            lambda number: st.sampled_from(
                [
                    (number & (1 << 8 * size) - 1).to_bytes(size, order)
                    for size in (1, 2, 4, 8)
                    for order in ("little", "big")
                ]
            )
        ),
        st.tuples(places, st.integers(1, 64)).map(lambda cut: good[cut[0] : cut[0] + cut[1]]),
    )
    edits = st.lists(
        st.builds(
            lambda at, size, new: Edit(at, at + size, new), places, st.sampled_from((0, 0, 1, 2, 4, 8, 64)), data
        ),
        min_size=1,
        max_size=6,
    )
    options = settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.target),
        suppress_health_check=list(HealthCheck),
    )
    for rng in run.cases():

        @seed(rng.getrandbits(64))
        @options
        @given(edits)
        def search(made: list[Edit]) -> None:
            _, lines = lines_of(lambda: judge.case(made, lambda kept: edited(good, kept)))
            known.update(lines)
            target(float(len(lines - usual)), label="lines")

        search()
    run.count("lines that the undamaged file does not reach", len(known - usual))


@attack("formats.guided.netcl", weight=0.5, least=1.0, needs=missing, environment=ENVIRONMENT)
def models(run: Run) -> None:
    """``.netcl`` files."""
    path = run.folder / "good.netcl"
    save_model(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), path)
    guide(run, ".netcl", load_model, path.read_bytes(), CheckpointError)


@attack("formats.guided.safetensors", weight=0.5, least=1.0, needs=missing, environment=ENVIRONMENT)
def tensors(run: Run) -> None:
    """safetensors files."""
    path = run.folder / "good.safetensors"
    save_safetensors(nn.Linear(3, 2), path, {"origin": "attack"})
    guide(run, ".safetensors", load_safetensors, path.read_bytes(), CheckpointError)


@attack("formats.guided.torch", weight=0.5, least=1.0, needs=missing, environment=ENVIRONMENT)
def states(run: Run) -> None:
    """``.pt`` files."""
    path = run.folder / "good.pt"
    save_torch(state(), path, arrays=True)
    guide(run, ".pt", load_torch, path.read_bytes(), CheckpointError)


@attack("formats.guided.onnx", weight=0.5, least=1.0, needs=lambda: missing() or library(), environment=ENVIRONMENT)
def graphs(run: Run) -> None:
    """ONNX files."""
    guide(run, ".onnx", read_onnx, graph()[0].SerializeToString(), CheckpointError)


@attack("formats.guided.npy", weight=0.5, least=1.0, needs=missing, environment=ENVIRONMENT)
def arrays(run: Run) -> None:
    """``.npy`` files."""
    file = io.BytesIO()
    np.save(file, np.arange(12, dtype=np.float32).reshape(3, 4))
    guide(run, ".npy", lambda path: NpyDataset(path)[0], file.getvalue(), ValueError)


@attack("formats.guided.idx", weight=0.5, least=1.0, needs=missing, environment=ENVIRONMENT)
def digits(run: Run) -> None:
    """IDX files in gzip."""
    good = struct.pack(">4B3I", 0, 0, 8, 3, 2, 3, 4) + bytes(range(24))
    guide(run, ".gz", lambda path: read_idx(path, 3), gzip.compress(good, mtime=0), ValueError)
