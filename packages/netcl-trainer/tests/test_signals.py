"""SIGINT and SIGTERM, once and twice: the step ends, the run is saved, and what is raised says which signal it was."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netcl.io import verify
from netcl.optim import SGD
from netcl.trainer import Callback, ModelCheckpoint, Trainer

Make = Callable[..., Any]
pytestmark = [
    pytest.mark.usefixtures("numpy_device"),
    pytest.mark.skipif(os.name == "nt", reason="Windows has no signals to send to a process"),
]


class Send(Callback):
    """Sends signals within a step, and notes the steps that ended."""

    def __init__(self, step: int, *numbers: int) -> None:
        self.step, self.numbers = step, numbers
        self.after: list[int] = []
        self.error: BaseException | None = None

    def on_step_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        if trainer.step == self.step:
            for number in self.numbers:
                os.kill(os.getpid(), number)
                time.sleep(0.01)
        self.after.append(trainer.step)

    def on_exception(self, trainer: Trainer, error: BaseException) -> None:
        self.error = error


def caught(trainer: Trainer, *args: Any, **keywords: Any) -> BaseException:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises((KeyboardInterrupt, SystemExit)) as found:
        trainer.fit(*args, log_every=0, **keywords)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    if isinstance(found.value, SystemExit):
        assert found.value.code == 143
    return found.value


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_the_first_ends_the_step_and_saves(
    make_network: Make, make_loader: Make, tmp_path: Path, number: int, kind: type[BaseException]
) -> None:
    model, send = make_network(), Send(5, number)
    saver = ModelCheckpoint(tmp_path, "loss", save_last=False)
    trainer = Trainer(model, SGD(model.parameters()), callbacks=[send, saver], seed=0)
    start = time.monotonic()
    error = caught(trainer, make_loader(), epochs=4)
    assert isinstance(error, kind) and send.error is error and time.monotonic() - start < 60
    assert send.after == [1, 2, 3, 4, 5] and verify(saver.last_path)["type"] == "checkpoint"
    # What was saved goes on to the numbers of a run that nobody interrupted.
    send.step = 0
    resumed = trainer.fit(make_loader(), epochs=4, log_every=0, resume="auto")
    model = make_network()
    expected = Trainer(model, SGD(model.parameters()), seed=0).fit(make_loader(), epochs=4, log_every=0)
    assert [row["loss"] for row in resumed] == [row["loss"] for row in expected]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_is_at_once(make_network: Make, make_loader: Make, tmp_path: Path, number: int) -> None:
    model, send = make_network(), Send(2, number, number)
    saver = ModelCheckpoint(tmp_path, "loss")
    caught(Trainer(model, SGD(model.parameters()), callbacks=[send, saver]), make_loader())
    assert send.after == [1] and not saver.last_path.exists()


def test_a_validation_is_interrupted_and_begins_again(make_network: Make, make_loader: Make, tmp_path: Path) -> None:
    class Interrupted:
        """A validation loader in whose second batch the signal comes, once."""

        sent = False

        def __iter__(self) -> Any:
            for number, batch in enumerate(make_loader(n=64, shuffle=False)):
                if number == 1 and not self.sent:
                    self.sent = True
                    os.kill(os.getpid(), signal.SIGINT)
                    time.sleep(0.01)
                yield batch

    runs = []
    for val_loader in (Interrupted(), make_loader(n=64, shuffle=False)):
        model = make_network()
        trainer = Trainer(model, SGD(model.parameters()), callbacks=[ModelCheckpoint(tmp_path, "loss")], seed=0)
        if isinstance(val_loader, Interrupted):
            caught(trainer, make_loader(), val_loader, epochs=2)
            assert trainer.history == []
            runs.append(trainer.fit(make_loader(), val_loader, epochs=2, log_every=0, resume="auto"))
        else:
            runs.append(trainer.fit(make_loader(), val_loader, epochs=2, log_every=0))
    assert [row["val_loss"] for row in runs[0]] == [row["val_loss"] for row in runs[1]]
    assert [row["loss"] for row in runs[0]] == [row["loss"] for row in runs[1]]


def test_a_run_in_another_thread_leaves_signals_alone(make_network: Make, make_loader: Make) -> None:
    model, before = make_network(), signal.getsignal(signal.SIGINT)
    trainer = Trainer(model, SGD(model.parameters()))
    seen: list[Any] = []

    class Look(Callback):
        def on_step_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
            seen.append(signal.getsignal(signal.SIGINT))

    trainer.callbacks = [Look()]
    thread = threading.Thread(target=lambda: trainer.fit(make_loader(), log_every=0))
    thread.start()
    thread.join()
    assert seen == [before] * 3
