"""The report of a run: one self-contained page, checked in a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import DeviceHandle
from netcl.optim import SGD, ExponentialLR
from netcl.trainer import History, LearningRateMonitor, Trainer
from netcl.trainer.charts import Curve, line_chart

Make = Callable[..., Any]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")


def run(make_network: Make, train: Any, val: Any) -> History:
    model = make_network()
    optimizer = SGD(model.parameters(), lr=0.02)
    schedule, monitor = ExponentialLR(optimizer, 0.9), LearningRateMonitor()
    trainer = Trainer(model, optimizer, grad_clip=2.0, scheduler=schedule, callbacks=[monitor])
    return trainer.fit(train, val, epochs=3, log_every=0)


def test_it_holds_everything_and_asks_for_nothing(
    handle: DeviceHandle, make_network: Make, make_loader: Make, tmp_path: Path
) -> None:
    val = make_loader(n=64, shuffle=False)
    history = run(make_network, make_loader(), val)
    position = val.state_dict()
    page = history.report(tmp_path / "report.html", config="lr = <as given>").read_text(encoding="utf-8")
    assert val.state_dict() == position
    assert re.findall(r'(?:src|href)="(?!data:)', page) == []
    assert "<script" not in page
    for text in (
        "best epoch",
        handle.device_name,
        "MaxPool2d",
        "SGD",
        "ExponentialLR",
        "gradient clipping",
        "ArrayDataset, 64 samples, batch_size 16",
        "Python 3.",
        "samples per second",
        "val_accuracy",
        "learning rate",
        "LearningRateMonitor",
        "lr = &lt;as given&gt;",
    ):
        assert text in page, text
    wrong = round(64 * (1 - history[-1]["val_accuracy"]))
    assert f"{wrong} of 64 validation samples" in page
    assert page.count("<figure>") == min(wrong, 24) == page.count("data:image/png")


def test_a_browser_shows_it(numpy_device: object, make_network: Make, make_loader: Make, tmp_path: Path) -> None:
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no browser is installed: Chromium, Chrome or Edge")
    page = run(make_network, make_loader(), make_loader(n=64)).report(tmp_path / "report.html")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    picture = tmp_path / "page.png"
    shown = subprocess.run(
        [browser, *options, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=100, check=True
    ).stdout
    # The page as the browser parsed it: nothing is swallowed by an element that was never closed.
    for heading in ("Curves", "Misclassified samples", "Epochs", "What was run"):
        assert f"<h2>{heading}</h2>" in shown
    assert shown.count("<svg") == 4
    assert shown.count("<polyline") == 6
    assert len(re.findall(r"<tr[ >]", shown.partition("What was run")[0])) == 8  # the confusion matrix and the epochs
    subprocess.run(
        [browser, *options, f"--screenshot={picture}", page.as_uri()], capture_output=True, timeout=100, check=True
    )
    assert picture.stat().st_size > 10_000


def test_on_a_narrow_screen_the_page_is_as_wide_as_the_screen(
    numpy_device: object, make_network: Make, make_loader: Make, tmp_path: Path
) -> None:
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no browser is installed: Chromium, Chrome or Edge")
    page = run(make_network, make_loader(), make_loader(n=64)).report(tmp_path / "report.html")
    # Below 500 pixels Chromium's own window is wider than it says, a frame is not.
    measured = tmp_path / "measured.html"
    script = (
        "const f = document.querySelector('iframe');"
        "f.onload = () => { const d = f.contentDocument, s = d.documentElement;"
        "const t = [...d.querySelectorAll('.table')], x = d.querySelector('svg text');"
        "const size = f.contentWindow.getComputedStyle(x).fontSize;"
        "document.title = [s.scrollWidth - s.clientWidth, t.some(e => e.scrollWidth > e.clientWidth), size]"
        ".join(' '); };"
    )
    frame = f'<iframe width="400" height="900" style="border:0" srcdoc="{escape(page.read_text(encoding="utf-8"))}">'
    measured.write_text(f"<title></title>{frame}</iframe><script>{script}</script>", encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    shown = subprocess.run(
        [browser, *options, "--virtual-time-budget=5000", "--dump-dom", measured.as_uri()],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    ).stdout
    # The wide table scrolls within the page, and letters of charts are larger there.
    assert re.search("<title>(.*?)</title>", shown)[1] == "0 true 15px"  # type: ignore[index]


def test_a_history_made_by_hand_has_its_curves(tmp_path: Path) -> None:
    rows = [
        {"epoch": at, "loss": 1 / at, "note": "<b>", "val_loss": None if at == 2 else float("nan")} for at in (1, 2)
    ]
    page = History(rows).report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;" in page
    assert "<b>2</b>" in page
    assert "Misclassified samples" not in page
    with pytest.raises(ValueError, match="the history is empty"):
        History().report(tmp_path / "none.html")


def test_models_that_tell_no_classes_apart_have_no_misclassified_samples(
    numpy_device: object, make_network: Make, tmp_path: Path
) -> None:
    x = np.zeros((16, 1, 4, 4), np.float32)
    model = make_network()
    loader = [(x, np.zeros((16, 3), np.float32))]
    trainer = Trainer(model, SGD(model.parameters()), loss_fn=ag.mse_loss)
    page = trainer.fit(loader, loader, log_every=0).report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Misclassified samples" not in page


@pytest.mark.parametrize("values", [[0.00205, 0.00195, 0.0011], [1234567.0, 1234568.0], [0.5, 0.25]])
def test_the_numbers_of_an_axis_fit_beside_it(values: list[float]) -> None:
    """At 400 pixels the first digits of a learning rate were cut off."""
    chart = line_chart("lr", [1.0, 2.0, 3.0][: len(values)], [Curve("lr", values)])
    labels = re.findall(r'x="([\d.]+)" y="[\d.]+" text-anchor="end">([^<]+)<', chart)
    assert len(labels) > 2
    assert all(float(end) - 8.5 * len(text) >= 0 for end, text in labels)
