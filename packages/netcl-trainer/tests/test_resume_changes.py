"""A run knows what it resumes: changes of its facts are refused by name, accepted by name, or reported."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl import nn, ops
from netcl.data import DataLoader
from netcl.io import CheckpointError, load_checkpoint, save_checkpoint
from netcl.optim import SGD, AdamW, CosineAnnealingLR, Scheduler, StepLR
from netcl.trainer import Callback, ModelCheckpoint, Trainer
from netcl.trainer.run_facts import FACTS

pytestmark = pytest.mark.usefixtures("numpy_device")
GUIDE = Path(__file__).parents[3] / "docs/how-to/long-runs.md"


class StopAt(Callback):
    def __init__(self, step: int | None) -> None:
        self.step = step

    def on_step_end(self, trainer: Any, logs: dict[str, float]) -> None:
        if trainer.step == self.step:
            raise RuntimeError("the power went")


def data(seed: int = 5, n: int = 40) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return rng.normal(0, 1, (n, 8)).astype(np.float32), y


def model(p: float = 0.25, activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    ops.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), activation(), nn.Dropout(p), nn.Linear(8, 3))


def trainer(
    folder: Path,
    stop: int | None = None,
    *,
    network: nn.Module | None = None,
    optimizer: Callable[..., Any] = AdamW,
    lr: float = 0.02,
    schedule: Callable[[Any], Scheduler | None] = lambda optimizer: StepLR(optimizer, 2, 0.5),
    **keywords: Any,
) -> Trainer:
    network = model() if network is None else network
    stepping = optimizer(network.parameters(), lr=lr)
    return Trainer(
        network,
        stepping,
        scheduler=schedule(stepping),
        seed=3,
        compile=False,
        callbacks=[StopAt(stop), ModelCheckpoint(folder, "loss", every_n_steps=1)],
        **keywords,
    )


def loader(arrays: Any = None, batch_size: int = 16, **keywords: Any) -> DataLoader:
    return DataLoader(data() if arrays is None else arrays, batch_size, **{"shuffle": True, "seed": 1, **keywords})


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Returns the folder of a run of three batches to an epoch that was broken in its second one."""
    with pytest.raises(RuntimeError, match="the power went"):
        trainer(tmp_path, 6).fit(loader(), epochs=4, log_every=0)
    return tmp_path


def bits(network: nn.Module) -> dict[str, bytes]:
    return {name: tensor.to_host().tobytes() for name, tensor in network.state_dict().items()}


CHANGES: dict[str, tuple[dict[str, Any], Callable[[], Any]]] = {
    "optimizer": ({"optimizer": SGD}, loader),
    "scheduler": ({"schedule": lambda optimizer: CosineAnnealingLR(optimizer, 4)}, loader),
    "scheduler ": ({"schedule": lambda optimizer: StepLR(optimizer, 3, 0.5)}, loader),
    "scheduler  ": ({"schedule": lambda optimizer: None}, loader),
    "loss": ({"loss_fn": nn.CrossEntropyLoss(label_smoothing=0.1)}, loader),
    "accumulation": ({"accumulation_steps": 2}, loader),
    "model": ({"network": "gelu"}, loader),
    "model ": ({"network": "dropout"}, loader),
    "loader": ({}, lambda: loader(shuffle=False)),
    "loader ": ({}, lambda: list(loader())),
    "batch_size": ({}, lambda: loader(batch_size=8)),
    "drop_last": ({}, lambda: loader(drop_last=True)),
    "data": ({}, lambda: loader(data(6))),
    "data ": ({}, lambda: loader(data(n=41))),
}
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "gelu": lambda: model(activation=nn.GELU),
    "dropout": lambda: model(0.5),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_counts_is_refused_by_name_and_changes_nothing(broken: Path, name: str) -> None:
    options, batches = CHANGES[name]
    options = dict(options)
    network = NETWORKS[options.pop("network")]() if "network" in options else model()
    network.eval()
    other = trainer(broken, network=network, **options)
    before, state = bits(network), repr(other.optimizer.state_dict())
    numbers = ops.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    with pytest.raises(CheckpointError, match=rf"another run:\n    .*\b{name.strip()}: ") as caught:
        other.fit(batches(), epochs=4, log_every=0, resume="auto")
    assert f"resume_changes=[{name.strip()!r}" in str(caught.value)
    assert bits(network) == before
    assert repr(other.optimizer.state_dict()) == state
    assert not any(module.training for module in network.modules())
    assert (ops.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()) == numbers
    assert (other.step, list(other.history)) == (0, [])


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("allow", [True, False])
def test_an_accepted_change_is_used_and_reported(broken: Path, name: str, allow: bool) -> None:
    options, batches = CHANGES[name]
    options = dict(options)
    network = NETWORKS[options.pop("network")]() if "network" in options else model()
    other = trainer(broken, network=network, **options)
    named = [*({"loader", "batch_size", "drop_last", "data"} if name == "loader " else ()), name.strip()]
    named += ["optimizer_options"] if name == "optimizer" else []
    with pytest.warns(UserWarning, match=rf"(?s)is resumed; .*{name.strip()}: .*the new one is used"):
        history = other.fit(batches(), epochs=4, log_every=0, resume="auto", resume_changes="allow" if allow else named)
    assert [row["epoch"] for row in history] == [1, 2, 3, 4]
    # The interrupted epoch began again, with all of its samples.
    per_epoch = -(-len(list(batches())) // other.accumulation_steps)
    assert other.step == 5 + 3 * per_epoch
    again = load_checkpoint(broken / "last.netcl")["extra"]["facts"]
    changed = {fact.name: fact.read(other, other.run.train_loader) for fact in FACTS}
    assert again == changed


def test_the_same_run_is_resumed_in_silence(broken: Path) -> None:
    other = trainer(broken)
    other.fit(loader(), epochs=4, log_every=0, resume="auto")
    whole = trainer(broken / "whole")
    whole.fit(loader(), epochs=4, log_every=0)
    assert bits(other.model) == bits(whole.model)


def test_a_rate_is_reported_and_the_saved_one_is_used(broken: Path) -> None:
    other = trainer(broken, lr=0.5, schedule=lambda optimizer: StepLR(optimizer, 2, 0.5))
    with pytest.warns(
        UserWarning, match=r"lr: \[0.02\] in the checkpoint, \[0.5\] now \(that of the checkpoint is used"
    ):
        other.fit(loader(), epochs=4, log_every=0, resume="auto")
    assert other.optimizer.param_groups[0]["lr"] == pytest.approx(0.02 * 0.25)


def test_a_rate_that_is_named_is_used(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the power went"):
        trainer(tmp_path, 4, schedule=lambda optimizer: None).fit(loader(), epochs=2, log_every=0)
    other = trainer(tmp_path, lr=0.5, schedule=lambda optimizer: None)
    with pytest.warns(UserWarning, match=r"lr: .*the new one is used"):
        other.fit(loader(), epochs=2, log_every=0, resume="auto", resume_changes=["lr"])
    assert other.optimizer.param_groups[0]["lr"] == 0.5


def test_a_schedule_with_other_options_keeps_its_epoch(broken: Path) -> None:
    other = trainer(broken, schedule=lambda optimizer: StepLR(optimizer, 1, 0.1))
    with pytest.warns(UserWarning, match="scheduler: step_size 2 in the checkpoint, 1 now; gamma 0.5 .*0.1 now"):
        other.fit(loader(), epochs=4, log_every=0, resume="auto", resume_changes=["scheduler"])
    assert other.scheduler.last_epoch == 4
    assert other.optimizer.param_groups[0]["lr"] == pytest.approx(0.02 * 0.1**4)


def test_device_driver_and_versions_are_reported(broken: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("netcl.trainer.run_facts.netcl_versions", lambda: {"netcl-core": "0.1.99"})
    # The table holds a function that reads the name when it is called.
    with pytest.warns(UserWarning, match=r"versions: netcl-core .* in the checkpoint, 0.1.99 now"):
        trainer(broken).fit(loader(), epochs=4, log_every=0, resume="auto")
    facts = load_checkpoint(broken / "last.netcl")["extra"]["facts"]
    assert facts["device"]
    assert facts["driver"].startswith("NumPy ")


@pytest.mark.parametrize("name", ["device", "driver", "optimizer_options", "grad_clip", "precision", "ema", "ranks"])
def test_other_facts_are_reported_and_the_run_goes_on(broken: Path, name: str) -> None:
    path, one = broken / "last.netcl", trainer(broken)
    rest = load_checkpoint(path, one.model, optimizer=one.optimizer, scheduler=one.scheduler, loader=(had := loader()))
    rest["extra"]["facts"][name] = {"weight_decay": 0.5} if name == "optimizer_options" else "another"
    parts = {"optimizer": one.optimizer, "scheduler": one.scheduler, "loader": had}
    save_checkpoint(one.model, path, **parts, epoch=rest["epoch"], step=rest["step"], extra=rest["extra"])
    used = "that of the checkpoint is used" if name == "optimizer_options" else "the new one is used"
    with pytest.warns(UserWarning, match=rf"{name}: .* in the checkpoint, .* now.* \({used}\)"):
        history = trainer(broken).fit(loader(), epochs=4, log_every=0, resume="auto")
    assert [row["epoch"] for row in history] == [1, 2, 3, 4]


def test_a_file_of_an_older_netcl_is_resumed_and_reported_once(broken: Path) -> None:
    path = broken / "last.netcl"
    one = trainer(broken)
    rest = load_checkpoint(path, one.model, optimizer=one.optimizer, scheduler=one.scheduler, loader=(had := loader()))
    del rest["extra"]["facts"]
    parts = {"optimizer": one.optimizer, "scheduler": one.scheduler, "loader": had}
    save_checkpoint(one.model, path, **parts, epoch=rest["epoch"], step=rest["step"], extra=rest["extra"])
    with pytest.warns(UserWarning, match="older netcl: nothing was compared") as caught:
        trainer(broken).fit(loader(), epochs=2, log_every=0, resume="auto")
    assert len(caught) == 1
    # The next file has the facts.
    trainer(broken).fit(loader(), epochs=3, log_every=0, resume="auto")


def test_resume_changes_is_checked(tmp_path: Path) -> None:
    for given, message in (("all", "refuse"), (3, "refuse"), (["los"], "'los' is no recorded fact.* loss")):
        with pytest.raises(ValueError, match=message):
            trainer(tmp_path).fit(loader(), log_every=0, resume_changes=given)  # type: ignore[arg-type]


def test_a_data_set_may_name_its_own_fingerprint(tmp_path: Path) -> None:
    class Stream:
        def __init__(self, version: str) -> None:
            self.version = version

        def fingerprint(self) -> str:
            return self.version

        def __len__(self) -> int:
            return 40

        def __getitem__(self, index: int) -> Any:
            x, y = data()
            return x[index], y[index]

    trainer(tmp_path).fit(loader(Stream("a")), epochs=1, log_every=0)
    with pytest.raises(CheckpointError, match="data: a in the checkpoint, b now"):
        trainer(tmp_path).fit(loader(Stream("b")), epochs=2, log_every=0, resume="auto")


def test_a_rest_that_does_not_fit_is_refused_before_the_model_changes(broken: Path) -> None:
    path, source = broken / "last.netcl", trainer(broken)
    whole = load_checkpoint(path, source.model, optimizer=source.optimizer, scheduler=source.scheduler, rng=False)
    spoils: dict[str, Callable[[dict[str, Any]], Any]] = {
        "metrics": lambda extra: extra["means"]["sums"].pop("accuracy"),
        "stage": lambda extra: extra.update(stage="middle"),
        "samples": lambda extra: extra.update(samples="many"),
        "batches": lambda extra: extra.update(batches=-1),
        "history": lambda extra: extra.update(history=[3]),
        "kept": lambda extra: extra.update(callbacks=[["ModelCheckpoint", {}]]),
        "trainer": lambda extra: extra.update(trainer=99),
        "row": lambda extra: extra.update(row=7),
    }
    for name, spoil in spoils.items():
        again = load_checkpoint(path, rng=False)
        spoil(again["extra"])
        file = broken / "hostile" / "one.netcl"
        file.parent.mkdir(exist_ok=True)
        save_checkpoint(
            again["model"],
            file,
            optim_state=again["optimizer"],
            **{key: _State(again[key]) for key in ("scheduler", "loader")},  # type: ignore[arg-type]
            epoch=again["epoch"],
            step=again["step"],
            extra=again["extra"],
        )
        other = trainer(broken / "other", network=nn.Sequential(*model()))
        parts = other.optimizer, other.scheduler
        before = bits(other.model), *(repr(part.state_dict()) for part in parts)
        with pytest.raises(CheckpointError, match=re.escape(str(file))):
            other.fit(loader(), epochs=4, log_every=0, resume=file)
        assert (bits(other.model), repr(other.optimizer.state_dict()), repr(other.scheduler.state_dict())) == before, (
            name
        )
    assert whole["epoch"] == 2


class _State:
    def __init__(self, state: Any) -> None:
        self.state = state

    def state_dict(self) -> Any:
        return self.state


def test_the_loss_is_described_by_its_options() -> None:
    losses = [ag.cross_entropy, ag.mse_loss, nn.CrossEntropyLoss(), nn.CrossEntropyLoss(label_smoothing=0.1)]
    read = next(fact.read for fact in FACTS if fact.name == "loss")
    found = []
    for loss in losses:
        network = model()
        one = Trainer(network, SGD(network.parameters()), loss_fn=loss)
        one._compiled(loss)
        found.append(repr(read(one, None)))
    assert len(set(found)) == len(losses)


def test_the_guide_lists_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (refused|reported) \|$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(fact.name, fact.meaning, "refused" if fact.refused else "reported") for fact in FACTS]
