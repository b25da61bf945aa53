"""SIGINT, SIGTERM, SIGHUP, once and twice: the step ends, the run is saved, and the error says which signal it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netcl.io import load_checkpoint, verify
from netcl.optim import SGD
from netcl.trainer import Callback, ModelCheckpoint, Trainer

Make = Callable[..., Any]
QUIET = "ignore:this netcl-core has no level"  # which a core without capture says
SCRIPT = Path(__file__).parent / "resumable_run.py"
pytestmark = [
    pytest.mark.usefixtures("numpy_device", "default_signals"),
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
    handled = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    before = [signal.getsignal(number) for number in handled]
    with pytest.raises((KeyboardInterrupt, SystemExit)) as found:
        trainer.fit(*args, log_every=0, **keywords)
    assert [signal.getsignal(number) for number in handled] == before
    return found.value


@pytest.mark.parametrize(("name", "code"), [("SIGINT", None), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_the_first_ends_the_step_and_saves(
    make_network: Make, make_loader: Make, tmp_path: Path, name: str, code: int | None
) -> None:
    model, send = make_network(), Send(5, getattr(signal, name))
    saver = ModelCheckpoint(tmp_path, "loss", save_last=False)
    trainer = Trainer(model, SGD(model.parameters()), callbacks=[send, saver], seed=0)
    start = time.monotonic()
    error = caught(trainer, make_loader(), epochs=4)
    assert getattr(error, "code", None) == code
    assert isinstance(error, KeyboardInterrupt if code is None else SystemExit)
    assert send.error is error
    assert time.monotonic() - start < 60
    assert send.after == [1, 2, 3, 4, 5]
    assert verify(saver.last_path)["type"] == "checkpoint"
    # The saved run continues to the numbers of an uninterrupted run.
    send.step = 0
    resumed = trainer.fit(make_loader(), epochs=4, log_every=0, resume="auto")
    model = make_network()
    expected = Trainer(model, SGD(model.parameters()), seed=0).fit(make_loader(), epochs=4, log_every=0)
    assert [row["loss"] for row in resumed] == [row["loss"] for row in expected]


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs Linux: /dev/shm")
@pytest.mark.parametrize(("number", "code", "workers"), [(signal.SIGINT, 130, 0), (signal.SIGTERM, 143, 2)])
@pytest.mark.timing
def test_the_second_ends_a_stuck_process_at_once(tmp_path: Path, number: int, code: int, workers: int) -> None:
    """The main thread is in C and comes back to no signal handler; the workers and their memory go with it."""
    script = [sys.executable, str(SCRIPT), str(tmp_path), str(workers), "cpu", "stuck"]
    process = subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(3)][-1] == "step 3\n", process.communicate()[1]
    process.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    start = time.monotonic()
    process.send_signal(number)
    assert process.wait(20) == code
    seconds = time.monotonic() - start
    assert "the process ends at once" in process.communicate()[1]
    assert seconds < 5
    # The step was never over, so nothing was saved after it; what was saved before is whole.
    assert load_checkpoint(tmp_path / "last.netcl")["step"] == 2
    assert left_of(process.pid) == []


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs POSIX: SIGSTOP")
def test_a_stopped_run_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    """Two seconds of SIGSTOP are no wait for a kernel, and change no number."""
    outputs = []
    for stopped in (True, False):
        script = [sys.executable, str(SCRIPT), str(tmp_path / str(stopped)), "0", "cpu"]
        environment = {**os.environ, "NETCL_WATCHDOG_S": "0.5", "PYTHONWARNINGS": f"{QUIET}:UserWarning"}
        process = subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        if stopped:
            assert process.stdout.readline() == "step 1\n"
            for _ in range(2):
                process.send_signal(signal.SIGSTOP)
                time.sleep(1)
                process.send_signal(signal.SIGCONT)
                time.sleep(0.1)
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
        outputs.append(output.splitlines()[-7:])
    assert outputs[0][-1].startswith("digest")
    assert outputs[0] == outputs[1]


def test_a_clock_that_jumps_changes_nothing(make_network: Make, make_loader: Make, tmp_path: Path, monkeypatch) -> None:
    times, rows = iter([1e9, 4e9, 0.0, -1.0] * 10_000), []
    for jumps in (False, True):
        model = make_network()
        trainer = Trainer(model, SGD(model.parameters()), callbacks=[ModelCheckpoint(tmp_path, "loss")], seed=0)
        if jumps:
            monkeypatch.setattr(time, "time", lambda: next(times))
            monkeypatch.setattr(time, "time_ns", lambda: int(next(times) * 1e9))
        rows.append(trainer.fit(make_loader(), epochs=2, log_every=0))
    assert [row["loss"] for row in rows[0]] == [row["loss"] for row in rows[1]]
    assert all(row["seconds"] >= 0 for row in rows[1] if "seconds" in row)


def left_of(pid: int) -> list[str]:
    """Returns the shared memory of a process that has ended; gone within seconds."""
    end = time.monotonic() + 20
    while (left := [path.name for path in Path("/dev/shm").glob(f"netcl-{pid}-*")]) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def test_one_signal_sent_twice_counts_once(make_network: Make, make_loader: Make, tmp_path: Path) -> None:
    """As `timeout` does it: to the process, and to its group."""
    model, send = make_network(), Send(2, signal.SIGTERM, signal.SIGTERM)
    saver = ModelCheckpoint(tmp_path, "loss")
    caught(Trainer(model, SGD(model.parameters()), callbacks=[send, saver]), make_loader())
    assert send.after == [1, 2]
    assert load_checkpoint(saver.last_path)["step"] == 2


def test_what_was_there_before_is_there_again(make_network: Make, make_loader: Make) -> None:
    """The wakeup descriptor of an event loop hears other signals during the run, and all of them after it."""
    heard, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer)
    try:
        handler = signal.signal(signal.SIGUSR1, lambda number, frame: None)
        model = make_network()
        send = Send(2, signal.SIGUSR1, signal.SIGTERM)
        caught(Trainer(model, SGD(model.parameters()), callbacks=[send]), make_loader())
        os.kill(os.getpid(), signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, handler)
    finally:
        assert signal.set_wakeup_fd(before) == writer
        os.close(writer)
    with os.fdopen(heard, "rb") as file:
        assert file.read() == bytes([signal.SIGUSR1] * 2)
    for thread in [thread for thread in threading.enumerate() if thread.name == "netcl-interruption"]:
        thread.join(5)
        assert not thread.is_alive()


def test_a_validation_is_interrupted_and_begins_again(make_network: Make, make_loader: Make, tmp_path: Path) -> None:
    class Interrupted:
        """A validation loader with the signal in its second batch, once."""

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
