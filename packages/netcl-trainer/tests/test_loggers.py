"""Loggers and Profiler: what other programs read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netcl.optim import SGD
from netcl.trainer import Callback, MLflowLogger, Profiler, TensorBoardLogger, Trainer, WandbLogger

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


class Torn(Callback):
    """Ends the run by an error at the end of an epoch."""

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, Any]) -> None:
        raise RuntimeError("torn")


def test_runs_of_wandb(
    numpy_device: object, make_network: Make, make_loader: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    logged: list[tuple[int, dict[str, float]]] = []
    original = wandb.Run.log

    def log(run: Any, values: dict[str, float], step: int) -> None:
        logged.append((step, values))
        original(run, values, step=step)

    monkeypatch.setattr(wandb.Run, "log", log)
    model = make_network()
    logger = WandbLogger("digits", name="first", mode="offline", folder=tmp_path, config={"mine": 7})
    trainer = Trainer(model, SGD(model.parameters(), lr=0.5), callbacks=[logger], metrics_stride=2)
    history = trainer.fit(make_loader(), make_loader(), epochs=2, log_every=0)
    assert [values["val_loss"] for _, values in logged if "val_loss" in values] == history.column("val_loss")
    assert [step for step, values in logged if "step/loss" in values] == [2, 3, 5, 6]
    (run,) = (tmp_path / "wandb").glob("offline-run-*")
    (written,) = run.glob("run-*.wandb")
    assert written.name == f"run-{logger.run_id}.wandb"
    deadline, words = time.monotonic() + 20, (b"samples_per_second", b"SGD", b"mine")
    while not all(word in written.read_bytes() for word in words):  # a process of wandb writes it
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert wandb.run is None


def test_runs_of_mlflow(
    numpy_device: object, make_network: Make, make_loader: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # mlflow-skinny has no database
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    place = (tmp_path / "runs").as_uri()
    model = make_network()
    logger = MLflowLogger("digits", name="first", tracking_uri=place, params={"mine": 7})
    trainer = Trainer(model, SGD(model.parameters(), lr=0.5), callbacks=[logger], metrics_stride=2)
    history = trainer.fit(make_loader(), make_loader(), epochs=2, log_every=0)
    client = mlflow.MlflowClient(place)
    run = client.get_run(logger.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params["mine"] == "7"
    assert (run.data.params["optimizer"], run.data.params["lr"]) == ("SGD", "0.5")
    losses = client.get_metric_history(logger.run_id, "val_loss")
    assert [(metric.step, metric.value) for metric in losses] == list(zip([3, 6], history.column("val_loss")))
    # A resumed run continues; one that ends by an error is marked.
    again = MLflowLogger("digits", tracking_uri=place)
    again.load_state_dict(logger.state_dict())
    trainer.callbacks[:] = [again, Torn()]
    with pytest.raises(RuntimeError, match="torn"):
        trainer.fit(make_loader(), epochs=1, log_every=0)
    assert client.get_run(logger.run_id).info.status == "FAILED"
    assert len(client.search_runs([run.info.experiment_id])) == 1


@pytest.mark.parametrize(
    ("kind", "module"), [(TensorBoardLogger, "tensorboardX"), (WandbLogger, "wandb"), (MLflowLogger, "mlflow")]
)
def test_a_logger_without_its_package_is_refused_before_the_run(
    kind: Any, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was found missing when `fit` began, after the data had been loaded."""
    monkeypatch.setattr("netcl.trainer.loggers.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=rf"{kind.__name__} needs {module}: pip install \"netcl-trainer\["):
        kind("name")


@pytest.mark.level("profiling")
def test_a_profile_of_a_few_steps(numpy_device: object, make_network: Make, make_loader: Make, tmp_path: Path) -> None:
    model, profiler = make_network(), Profiler(tmp_path, wait=5, steps=2)
    trainer = Trainer(model, SGD(model.parameters()), callbacks=[profiler])
    trainer.fit(make_loader(n=32), epochs=5, log_every=0)
    assert (tmp_path / "kernels.txt").read_text(encoding="utf-8").count("\n") > 3
    table = (tmp_path / "kernels.txt").read_text(encoding="utf-8")
    assert all(word in table for word in ("0 Conv2d: conv2d", "6 Linear: ", "1 BatchNorm2d: ", "optimizer")), table
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
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
