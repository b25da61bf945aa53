"""Labels of the launches of a captured step: the layer and the op that a profile shows for each kernel."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import netcl as nc
from netcl.core.capture.labels import Labelled, joined_label, label_merged, labelled, set_layer
from netcl.core.device import device
from netcl.profiling import profile
from netcl.runtime.capture import capture


def step(x: nc.Tensor, w: nc.Tensor) -> nc.Tensor:
    set_layer("first")
    y = nc.relu(nc.matmul(x, w))
    set_layer("second")
    return nc.matmul(nc.softmax(y, 1), w)


@pytest.mark.parametrize("labelling", [True, False])
def test_a_replay_names_layers_and_ops(handle, labelling) -> None:
    """Each row of `netcl profile` had the op "-", and kernels had names such as joined_37b726a51b alone."""
    rng = np.random.default_rng(0)
    with device(handle):
        x, w = (nc.tensor(rng.normal(size=(64, 64)).astype(np.float32)) for _ in range(2))
        plain = step(x, w).numpy()
        if labelling:
            with labelled():
                captured = capture(step, x, w)
        else:
            captured = capture(step, x, w)
        with profile() as p:
            result = captured.replay(x, w)
    set_layer("")
    assert np.array_equal(result.numpy(), plain)
    ops = {row.op for row in p.kernels}
    if labelling:
        assert {"first: matmul", "second: matmul"} <= {part for op in ops for part in op.split(", ")}
        assert any("first: relu" in op for op in ops)
        assert any("second: softmax" in op for op in ops)
    else:
        assert ops == {""}


def test_labels_of_several_launches() -> None:
    assert joined_label(["a: relu", "a: relu", "", "b: sum"]) == "a: relu, b: sum"
    assert joined_label([f"{n}: sum" for n in range(5)]) == "0: sum, 1: sum, 2: sum, 2 more"


class Record(NamedTuple):
    """A launch of a recording: its kernel and the sizes of its operands."""

    name: str
    args: tuple[Any, ...]


def record(name: str, *sizes: int) -> Record:
    return Record(name, tuple(SimpleNamespace(nbytes=size) for size in sizes))


def test_merged_launches_of_one_size_have_the_labels_of_both() -> None:
    """The second of them had none, which `netcl profile` shows as "-"."""
    before = [record(Labelled(name, f"{name}: sum"), size) for name, size in (("a", 8), ("b", 64), ("c", 64))]
    recording = SimpleNamespace(_records=[record("j0", 8), record("j1", 64), record("j2", 64)])
    label_merged(recording, before)
    assert [getattr(made.name, "op", "") for made in recording._records] == [
        "a: sum",
        "b: sum, c: sum",
        "b: sum, c: sum",
    ]
