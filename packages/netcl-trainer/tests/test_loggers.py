"""TensorBoardLogger and Profiler: what other programs read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netcl.optim import SGD
from netcl.trainer import Profiler, TensorBoardLogger, Trainer

Make = Callable[..., Any]


def test_events_for_tensorboard(numpy_device: object, make_network: Make, make_loader: Make, tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed")
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c

    model = make_network()
    trainer = Trainer(model, SGD(model.parameters()), callbacks=[TensorBoardLogger(tmp_path)], metrics_stride=2)
    history = trainer.fit(make_loader(), make_loader(), epochs=2, log_every=0)
    (file,) = tmp_path.iterdir()
    data, found = file.read_bytes(), []
    while data:
        length = int.from_bytes(data[:8], "little")
        assert int.from_bytes(data[8:12], "little") == masked_crc32c(data[:8])
        event = Event.FromString(data[12 : 12 + length])
        found += [(value.tag, event.step, value.simple_value) for value in event.summary.value]
        data = data[12 + length + 4 :]
    losses = [(step, value) for tag, step, value in found if tag == "val_loss"]
    assert [step for step, _ in losses] == [3, 6]
    assert [value for _, value in losses] == pytest.approx([row["val_loss"] for row in history])
    assert {tag for tag, _, _ in found} >= {"step/loss", "step/lr", "loss", "accuracy", "samples_per_second"}
    assert [step for tag, step, _ in found if tag == "step/loss"] == [2, 3, 5, 6]


@pytest.mark.level("profiling")
def test_a_profile_of_a_few_steps(numpy_device: object, make_network: Make, make_loader: Make, tmp_path: Path) -> None:
    model, profiler = make_network(), Profiler(tmp_path, wait=5, steps=2)
    trainer = Trainer(model, SGD(model.parameters()), callbacks=[profiler])
    trainer.fit(make_loader(n=32), epochs=5, log_every=0)
    assert (tmp_path / "kernels.txt").read_text(encoding="utf-8").count("\n") > 3
    assert json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    assert "<svg" in (tmp_path / "roofline.html").read_text(encoding="utf-8")
    # Ended by an error, a profile lets go of the device.
    profiler.steps = 100
    model[6].bias.requires_grad = False
    with pytest.raises(RuntimeError, match="torn"):

        def batches() -> Any:
            for _ in range(4):
                yield from make_loader(n=32)
            raise RuntimeError("torn")

        trainer.fit(batches(), log_every=0)
    assert profiler.profile is not None
    assert profiler.profile.ended > 0
    with pytest.raises(ValueError, match="wait and steps must be at least 1"):
        Profiler(tmp_path, wait=0)
