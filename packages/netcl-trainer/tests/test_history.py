"""History, the progress line, and the metrics that stay on the device."""

from __future__ import annotations

import builtins
import csv
import io
import logging
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tqdm import tqdm

from netcl import nn
from netcl.core import DeviceHandle, Tensor
from netcl.core.device import device
from netcl.core.errors import ShapeError
from netcl.optim import SGD
from netcl.trainer import Callback, History, ProgressBar, Trainer, accuracy
from netcl.trainer.metrics import DeviceMeans
from netcl.trainer.progress import _fitted, _parts, describe_logs

Make = Callable[..., Any]


@pytest.fixture
def history() -> History:
    """Returns three epochs, the last of them better in accuracy and worse in loss; one column comes late."""
    return History(
        [
            {"epoch": 1, "loss": 0.9, "accuracy": 0.5, "val_loss": math.nan, "val_accuracy": 0.5},
            {"epoch": 2, "loss": 0.4, "accuracy": 0.7, "val_loss": 0.5, "val_accuracy": 0.8},
            {"epoch": 3, "loss": 0.3, "accuracy": 0.8, "val_loss": 1 / 3, "val_accuracy": 0.75, "lr": 0.1},
        ]
    )


def test_the_best_epoch_goes_by_the_kind_of_metric(history: History) -> None:
    assert history.best("val_loss")["epoch"] == 3
    assert history.best("val_accuracy")["epoch"] == 2
    assert history.best("val_accuracy", mode="min")["epoch"] == 1
    assert history.best("lr")["epoch"] == 3
    with pytest.raises(KeyError, match="no 'f1'; it has epoch, loss, accuracy"):
        history.best("f1")
    with pytest.raises(ValueError, match="mode must be 'min', 'max' or None"):
        history.best("loss", mode="least")
    with pytest.raises(ValueError, match="is NaN"):
        History([{"loss": math.nan}]).best("loss")


def test_columns_and_csv(history: History, tmp_path: Path) -> None:
    assert history.column("lr") == [None, None, 0.1]
    path = history.to_csv(tmp_path / "history.csv")
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["epoch", "loss", "accuracy", "val_loss", "val_accuracy", "lr"]
    assert rows[0]["lr"] == ""
    assert float(rows[2]["val_loss"]) == 1 / 3


def test_a_plot_has_a_curve_for_each_column(history: History, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra plot (matplotlib) is not installed")
    figure = history.plot(tmp_path / "history.png")
    assert [len(axes.lines) for axes in figure.axes] == [2, 2]
    assert np.array_equal(figure.axes[1].lines[1].get_ydata(), [0.5, 0.8, 0.75])
    assert (tmp_path / "history.png").read_bytes()[:4] == b"\x89PNG"
    # A notebook shows a plain Figure as its repr, unless it was told "%matplotlib inline".
    assert figure._repr_png_()[:4] == b"\x89PNG"
    with pytest.raises(ValueError, match="empty"):
        History().plot()


def test_a_plot_leaves_out_a_confusion_matrix(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib, which draws histories, is not installed")
    history = History(
        {"epoch": n, "loss": 1.0, "val_loss": 1.0, "f1": 0.5, "val_f1": 0.4, "confusion": [[n]], "val_confusion": [[n]]}
        for n in (1, 2)
    )
    figure = history.plot(tmp_path / "history.png")
    assert [len(axes.lines) for axes in figure.axes] == [2, 2]


def test_a_plot_without_matplotlib_names_the_extra(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def refuse(name: str, *args: Any, **keywords: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return plain(name, *args, **keywords)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"netcl-trainer\[plot\]"):
        history.plot()


# -- progress ------------------------------------------------------------------------------------------------------


def test_one_line_per_epoch_where_there_is_no_terminal(
    numpy_device: object, make_network: Make, make_loader: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    model = make_network()
    trainer = Trainer(model, SGD(model.parameters(), lr=0.1))
    trainer.fit(make_loader(), make_loader(), epochs=12, log_every=5)
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert err == ""
    assert [line[:12] for line in lines] == ["epoch  1/12 ", "epoch  5/12 ", "epoch 10/12 ", "epoch 12/12 "]
    for word in ("loss 0.", "accuracy", " %", "val_loss", "val_accuracy", " s"):
        assert all(word in line for line in lines), word
    assert max(map(len, lines)) <= 100
    trainer.fit(make_loader(), epochs=1, log_every=0)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("width", "ends"), [(200, "12,345 samples/s"), (100, "0.1 s"), (80, "89.58 %")])
def test_a_line_of_an_epoch_fits_into_its_terminal(width: int, ends: str) -> None:
    """The least important values go first; 118 characters took two lines of 80 and of 110 columns."""
    logs = {"loss": 0.0379, "accuracy": 0.9948, "val_loss": 0.2519, "val_accuracy": 0.8958, "lr": 0.005}
    line = _fitted(["epoch 22/30", *_parts(logs), "0.1 s", "12,345 samples/s"], width)
    assert len(line) <= width
    assert line.endswith(ends)


def test_a_log_says_that_kernels_are_built(
    handle: DeviceHandle, make_network: Make, make_loader: Make, capsys: Any
) -> None:
    """Nothing was said until the first epoch had ended, after up to a minute. The builder itself says it."""
    line = f"building kernels for {handle}, kept for the next run"

    class Builds(Callback):
        def on_step_end(self, trainer: Any, logs: dict[str, float]) -> None:
            if builds:
                logging.getLogger("netcl.builds").info("building kernels for %s, kept for next time", "a device")

    before = list(logging.getLogger("netcl.builds").handlers)
    for builds in (True, False):
        with device(handle):
            model = make_network()
            Trainer(model, SGD(model.parameters(), lr=0.1), callbacks=[Builds()]).fit(make_loader())
        assert capsys.readouterr().out.count(line) == int(builds and handle.backend != "cpu")
    assert logging.getLogger("netcl.builds").handlers == before


@pytest.mark.timing
def test_a_bar_in_a_terminal_while_an_epoch_runs(
    numpy_device: object,
    make_network: Make,
    make_loader: Make,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    class Slow(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            for batch in super().__iter__():
                time.sleep(0.06)  # a bar is drawn again after a tenth of a second, not before
                yield batch

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "81")
    model = make_network()
    loader = Slow(make_loader(n=80))
    Trainer(model, SGD(model.parameters()), metrics_stride=1).fit(loader, make_loader(), epochs=2)
    shown = [line for line in terminal.getvalue().split("\r") if line.strip()]
    bar = r"^epoch 2/2 \|.+\| \d/5 \[\d+:\d+<\d+:\d+\], loss \d\.\d+  accuracy \d+\.\d\d %  [\d,]+ samples/s$"
    assert re.search(bar, shown[-1])
    assert all(len(line) <= 80 for line in shown)
    # The bar is wiped at the end; one line per epoch stays.
    assert terminal.getvalue().endswith(" \r")
    lines = capsys.readouterr().out.splitlines()
    assert [line[:9] for line in lines] == ["epoch 1/2", "epoch 2/2"]
    assert all("val_accuracy" in line for line in lines)


def test_a_progress_bar_of_ones_own_is_the_only_one(
    numpy_device: object, make_network: Make, make_loader: Make
) -> None:
    model, file = make_network(), io.StringIO()
    trainer = Trainer(model, SGD(model.parameters()), callbacks=[ProgressBar(2, file)])
    trainer.fit(make_loader(), epochs=4)
    assert [line[:9] for line in file.getvalue().splitlines()] == ["epoch 1/4", "epoch 2/4", "epoch 4/4"]


def test_a_bar_in_a_notebook_is_that_of_notebooks(
    numpy_device: object, make_network: Make, make_loader: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = SimpleNamespace(config={"IPKernelApp": {}})
    made: list[int | None] = []

    class Bar(tqdm):
        def __init__(self, *args: object, **options: Any) -> None:
            made.append(options["total"])
            assert options["file"] is sys.stdout  # what is on stderr has a red ground there
            super().__init__(*args, **{**options, "file": io.StringIO()})

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "tqdm.auto", SimpleNamespace(tqdm=Bar))
    model = make_network()
    Trainer(model, SGD(model.parameters())).fit(make_loader(), epochs=2)
    assert made == [3, 3]
    shell.config.clear()  # IPython in a pipe
    Trainer(model, SGD(model.parameters())).fit(make_loader(), epochs=1)
    assert len(made) == 2


def test_a_notebook_shows_curves_and_epochs(history: History) -> None:
    shown = history._repr_html_()
    assert shown.count("<svg") >= 2
    assert "</table>" in shown
    assert "@scope (.netcl-history)" in shown
    # On a dark system the first column had a dark ground and the dark letters of a light notebook.
    assert "color: var(--ink); background: var(--page)" in shown.partition("</style>")[0]
    assert "no epochs" in History()._repr_html_()


def test_numbers_are_readable() -> None:
    logs = {"epoch": 1, "loss": 0.00012, "val_accuracy": 0.98765, "lr": 0.01, "note": "x"}
    assert describe_logs(logs) == "loss 1.20e-04  val_accuracy 98.77 %  lr 0.0100  note x"


# -- metrics -------------------------------------------------------------------------------------------------------


def test_accuracy_of_ids_and_of_probabilities(handle: DeviceHandle) -> None:
    rng = np.random.default_rng(0)
    output = rng.normal(size=(10, 4, 3)).astype(np.float32)
    ids = rng.integers(0, 4, (10, 3))
    share = (output.argmax(axis=1) == ids).mean()
    for target in (ids, ids.astype(np.int32), ids.astype(np.float32), np.eye(4, dtype=np.float32)[ids].swapaxes(1, 2)):
        found = accuracy(Tensor.from_host(output), Tensor.from_host(np.ascontiguousarray(target)))
        assert found.shape == ()
        assert found.item() == pytest.approx(share)
    with pytest.raises(ShapeError, match=r"output has shape \(10, 4, 3\), target \(10,\)"):
        accuracy(Tensor.from_host(output), Tensor.from_host(ids[:, 0].copy()))


def test_means_of_many_steps_keep_their_digits(handle: DeviceHandle) -> None:
    means = DeviceMeans(("loss", "half"), handle.queue)
    assert means.read() == {}
    values = np.random.default_rng(1).random(400).astype(np.float32) + 100
    for at, value in enumerate(values):
        n = 1 + at % 3
        tensor = Tensor.from_host(value)
        means.add([tensor, Tensor.from_host(np.array([value / 2], np.float32))], n)
        means.count(n)
        if at % 10 == 9:
            means.read()
    weights = 1 + np.arange(400) % 3
    expected = np.average(values.astype(np.float64), weights=weights)
    assert means.read()["loss"] == pytest.approx(expected, rel=1e-7)
    assert means.read()["half"] == pytest.approx(expected / 2, rel=1e-7)
    means.reset()
    assert means.read() == {}


def test_the_loss_may_have_one_element_in_any_shape(numpy_device: object, make_loader: Make) -> None:
    import netcl.autograd as ag

    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    trainer = Trainer(model, SGD(model.parameters()))
    loader = make_loader()
    expected = trainer.evaluate(loader)["loss"]
    found = trainer.evaluate(loader, loss_fn=lambda o, t: ag.reshape(ag.cross_entropy(o, t), (1, 1)))["loss"]
    assert found == pytest.approx(expected)
