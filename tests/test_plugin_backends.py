"""Backends of other distributions: the one of docs/how-to/write-a-backend.md, installed, and faulty ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

Run = Callable[..., str]

LOSS = """
import numpy as np
from netcl import nn
from netcl.autograd import mse_loss
from netcl.data import ArrayDataset, DataLoader
from netcl.optim import SGD
from netcl.trainer import Trainer
x = np.linspace(-1, 1, 640, dtype=np.float32).reshape(-1, 1)
batches = DataLoader(ArrayDataset(x, 3 * x), batch_size=32, shuffle=True, seed=0)
model = nn.Linear(1, 1)
trainer = Trainer(model, SGD(model.parameters(), lr=0.2), loss_fn=mse_loss, metrics={}, seed=0)
trainer.fit(batches, epochs=1)
print(model.weight.engine.name, trainer.evaluate(batches)["loss"] < 0.1)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the distribution of the page, installed from the wheel that its files build."""
    page = (Path(__file__).resolve().parent.parent / "docs/how-to/write-a-backend.md").read_text(encoding="utf-8")
    project, site = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("site")
    (settings,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (project / "pyproject.toml").write_text(settings, encoding="utf-8")
    for name, text in re.findall(r"^```python\n# (\S+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    (wheel,) = WheelBuilder(str(project)).build(directory=str(project / "dist"), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def run(site: Path, *command: str, device: str = "", status: int = 0) -> str:
    """Returns Python's output, errors included, with the distributions of ``site`` installed."""
    environment = {**os.environ, "PYTHONPATH": str(site), "NETCL_PLATFORM_FILTER": "none"}
    environment.pop("NETCL_DEVICE", None)
    if device:
        environment["NETCL_DEVICE"] = device
    done = subprocess.run(
        [sys.executable, *command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=110,
    )
    assert done.returncode == status, done.stdout
    return done.stdout


def test_the_report_lists_it_and_the_trainer_uses_it(site: Path) -> None:
    report = run(site, "-m", "netcl.core", device="accurate")
    assert "accurate:0  cpu  NumPy, products in float64, netcl-accurate" in report
    assert "accurate:0  NumPy, products in float64 (netcl-accurate) (NETCL_DEVICE=accurate)" in report
    assert run(site, "-c", LOSS, device="accurate").splitlines()[-1] == "accurate True"


def test_selectors_queues_and_conformance(site: Path) -> None:
    code = (
        "import numpy as np, netcl as nc\n"
        "from netcl.core import Tensor, manager\n"
        "from netcl.core.engine.registry import engine_for, is_queue\n"
        "from netcl.core.testing import check_backend\n"
        "from netcl.runtime.stream import Stream\n"
        "import netcl_accurate\n"
        "first = manager.default('accurate')\n"
        "assert manager.default('Accurate:0') is first and first.selector == 'accurate:0'\n"
        "assert manager.default(first.selector) is first and first in manager.select()\n"
        "queue = netcl_accurate.Queue()\n"
        "assert is_queue(queue) and not is_queue(np.zeros(2)) and not is_queue(Tensor.zeros((2,)))\n"
        "x = Tensor.from_host(queue, np.full((3, 40000), 0.1, np.float32))\n"
        "assert x.engine is engine_for(queue) and x.engine.name == 'accurate'\n"
        "exact = 40000 * float(np.float32(0.1)) ** 2\n"
        "assert abs((x @ x.T).numpy()[0, 0] - np.float32(exact)) == 0\n"
        "with nc.device('accurate') as handle: assert nc.zeros(2).queue is handle.queue\n"
        "with Stream(first.queue) as stream:\n"
        "    assert nc.ones(3).sum().item() == 3 and stream.queue is not first.queue\n"
        "assert len({part.queue for part in manager.split(first, 2)}) == 2\n"
        "try: manager.default('accurate:1')\n"
        "except Exception as error: print(type(error).__name__, 'accurate:0' in str(error))\n"
        "report = check_backend(engine_for(first), ['add', 'matmul', 'softmax', 'conv2d', 'linear'])\n"
        "assert report, report\n"
        "plain = netcl_accurate.products._product\n"
        "def off(left, right, out):\n"
        "    plain(left, right, out)\n"
        "    out *= 1.001\n"
        "netcl_accurate.products._product = off\n"
        "print(sorted(check_backend(engine_for(first), ['add', 'matmul']).failed))\n"
    )
    assert run(site, "-c", code, device="cpu").splitlines() == ["DeviceNotFoundError True", "['matmul']"]


def test_the_pages_backend_is_green(root: Path, site: Path) -> None:
    page = (root / "docs/how-to/write-a-backend.md").read_text(encoding="utf-8")
    (command,) = re.findall(r'^\$ python -c "\n(.*?)"\n', page, re.MULTILINE | re.DOTALL)
    (held,) = re.findall(r"^accurate \(NumPy\), float32: .*$", page, re.MULTILINE)
    assert run(site, "-c", command, device="cpu").splitlines()[-1] == held
    kit = f"import sys; sys.path.append({str(root / 'alternatives/netcl-conformance/src')!r})\n"
    main = "from netcl_conformance.__main__ import main; sys.exit(main(['--device', 'accurate']))"
    assert run(site, "-c", kit + main, device="cpu").splitlines()[-1] == "green"


def test_the_command_lists_it(site: Path) -> None:
    assert '"selector": "accurate:0"' in run(site, "-m", "netcl.trainer.cli", "devices", "--json", device="cpu")


def put(site: Path, name: str, *entries: str, module: str = "") -> None:
    """Writes an installed distribution with entry points of netcl.backends, and its module."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[netcl.backends]\n" + "\n".join(entries) + "\n", encoding="utf-8")
    (site / f"{name}.py").write_text(module, encoding="utf-8")


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("raise ValueError('no such driver')", "ValueError: no such driver"),
        ("", "AttributeError: module 'faulty' has no attribute 'Mine'"),
        ("class Mine:\n    devices = staticmethod(lambda: 1 / 0)", "ZeroDivisionError: division by zero"),
        ("class Mine:\n    devices = staticmethod(lambda: ['one'])", "TypeError: devices() returned 'one'"),
    ],
)
def test_a_faulty_backend_is_a_warning_and_others_work(tmp_path: Path, module: str, reason: str) -> None:
    put(tmp_path, "faulty", "mine = faulty:Mine", module=module)
    code = (
        "from netcl.core import manager\n"
        "print(manager.select()[-1].selector)\n"
        "try: manager.default('mine')\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    printed = run(tmp_path, "-c", code, device="cpu").splitlines()
    assert f"the backend 'mine' is left out: faulty 1.0, faulty:Mine: {reason}" in printed[0]
    assert printed[1] == "cpu"
    assert printed[2].startswith("DeviceNotFoundError the backend 'mine' cannot be loaded: faulty 1.0")


def test_names_of_netcl_are_refused_and_a_second_of_a_name_is_left_out(tmp_path: Path) -> None:
    put(tmp_path, "taker", "gpu = taker:Mine", module="class Mine: pass")
    put(tmp_path, "one", "mine = one:Mine", module="class Mine: pass")
    put(tmp_path, "two", "mine = two:Mine", module="class Mine: pass")
    printed = run(tmp_path, "-m", "netcl.core", device="cpu")
    assert "'gpu' is a selector of netcl; give the backend another name" in printed
    assert "has a second backend of this name" in printed
