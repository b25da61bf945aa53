"""The command ``netcl``: what each part does and leaves, what it refuses, and the number it ends with."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl import io, nn, ops
from netcl.core import DeviceHandle, Tensor
from netcl.trainer import extensions
from netcl.trainer.cli import main, parse, parser
from netcl.trainer.cli.devices import _matmul_gflops
from netcl.trainer.cli.help_texts import EXAMPLES

COMMAND = [sys.executable, "-m", "netcl.trainer.cli"]

CONFIG = """\
[model]
layers = [["Conv2d", 1, 4, 3, {padding = 1}], ["BatchNorm2d", 4], "ReLU", "Flatten", ["Linear", 256, 10]]

[data]
name = "example_digits"
n = 300
batch_size = 50
validation = 0.2

[optimizer]
name = "AdamW"
lr = 0.01

[scheduler]
name = "CosineAnnealingLR"
T_max = 2

[trainer]
device = "cpu"
epochs = 2
output = "out"
ema = 0.5

[callbacks.EarlyStopping]
patience = 3
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "digits.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def told(capsys: Any, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, error = capsys.readouterr()
    return code, out, error


@pytest.mark.timing
def test_help_teaches_and_is_fast() -> None:
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        out = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, check=True).stdout
        seconds.append(time.perf_counter() - start)
    for name in ("doctor", "devices", "train", "evaluate", "predict", "tune", "profile", "bench", "export", "convert"):
        assert f"\n    {name} " in out
    assert "first steps" in out
    assert "exit codes" in out
    # The bound is 0.3 s on a machine that does nothing else.
    assert min(seconds) < 0.3, statistics.median(seconds)


def test_the_help_of_every_command_has_examples(capsys: Any) -> None:
    """Each example is a command line that the command takes."""
    for name, text in EXAMPLES.items():
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        assert ended.value.code == 0
        assert text.strip() in capsys.readouterr().out
        examples = re.findall(rf"^  (?:[A-Z_]+=\S+ )?netcl ({name}(?: \S+)*)", text.partition("examples:")[2], re.M)
        assert examples
        for line in examples:
            assert parse(parser(), line.partition(" > ")[0].split()).command == name


def test_the_help_of_train_is_a_configuration_that_trains(tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = capsys.readouterr().out.partition("names of the Python classes:\n")[2].partition("examples:\n")[0]
    path = tmp_path / "help.toml"
    path.write_text("\n".join(line[2:] for line in text.splitlines()), encoding="utf-8")
    settings = ["--set", "trainer.epochs=1", "--set", "trainer.device=cpu", "--set", "data.n=100"]
    assert main(["train", str(path), *settings]) == 0


def test_train_evaluate_predict_and_go_on(config: Path, capsys: Any) -> None:
    code, out, _ = told(capsys, "train", config)
    folder = config.parent / "out"
    assert code == 0
    assert "epoch 2/2" in out
    assert str(folder / "report.html") in out
    assert {path.name for path in folder.iterdir()} >= {"model.netcl", "last.netcl", "history.csv", "report.html"}
    code, out, _ = told(capsys, "evaluate", config, "--json")
    measured = json.loads(out)
    assert code == 0
    assert 0 < measured["accuracy"] <= 1
    assert measured["model"] == str(folder / "model.netcl")
    code, out, _ = told(capsys, "evaluate", config, "--model", folder / "model.netcl")
    assert code == 0
    assert "on the validation data: loss" in out

    code, out, _ = told(capsys, "train", config, "--resume", "auto", "--set", "trainer.epochs=3")
    assert code == 0
    assert "epoch 3/3" in out
    assert "epoch 2/3" not in out
    assert len((folder / "history.csv").read_text(encoding="utf-8").splitlines()) == 4
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert "patience = 3\n# --set trainer.epochs=3</pre>" in report

    changed = ("train", config, "--resume", "auto", "--set", "trainer.epochs=4", "--set", "data.batch_size=32")
    code, _, error = told(capsys, *changed)
    assert code == 1
    assert "batch_size: 50 in the checkpoint, 32 now" in error
    with pytest.warns(UserWarning, match="batch_size: 50 in the checkpoint, 32 now .the new one is used"):
        code, out, _ = told(capsys, *changed, "--resume-changes", "batch_size")
    assert code == 0
    assert "epoch 4/4" in out

    np.save(config.parent / "x.npy", np.zeros((5, 1, 8, 8), np.float32))
    predict = ("predict", folder / "model.netcl", config.parent / "x.npy", "--device", "cpu")
    code, out, _ = told(capsys, *predict)
    assert code == 0
    assert len(out.splitlines()) == 5
    assert out.startswith("0 class ")
    code, out, _ = told(capsys, *predict, "--output", config.parent / "y.npy")
    assert code == 0
    assert np.load(config.parent / "y.npy").shape == (5, 10)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "lr = 0.01",
            "learning_rate = 0.01",
            r":12:1: unknown key 'learning_rate' in \[optimizer\]; did you mean 'lr'\?",
        ),
        ("patience = 3", "patients = 3", r":25:1: unknown key 'patients' in \[callbacks.EarlyStopping\]; did you mean"),
        ("epochs = 2", 'epochs = "two"', r":20:1: epochs in \[trainer\] must be a whole number, got the text 'two'"),
        ("epochs = 2", "epochs = true", r":20:1: epochs in \[trainer\] must be a whole number, got true"),
        ("epochs = 2", "epochs = 0", r":20:1: epochs must be at least 1, got 0"),
        ("lr = 0.01", "lr = -1", r":10:1: \[optimizer\] cannot be made: expected lr of at least 0"),
        ("n = 300", "n = 300\nroot = 3", r":7:1: unknown key 'root' in \[data\]"),
        (
            'name = "example_digits"',
            'name = "ImageFolder"\npath = "images"',
            r":6:1: unknown key 'path' in \[data\]; did you mean 'root'\? known are",
        ),
        ('"AdamW"', '"AdanW"', r":11:1: unknown optimizer 'AdanW'; did you mean 'AdamW'\?"),
        ("[scheduler]", "[schedule]", r":14:1: unknown table \[schedule\]; did you mean 'scheduler'\?"),
        ('"ReLU"', '"Relu"', r":2:1: layer 2 of \[model\]: unknown layer 'Relu'; did you mean 'ReLU'\?"),
        ("padding = 1", "pading = 1", r":2:1: layer 0 of \[model\], Conv2d: unknown argument 'pading'; did you mean"),
        ("example_digits", "example_digit", r":5:1: unknown data set 'example_digit'; did you mean 'example_digits'\?"),
        ("T_max = 2", "", r":14:1: \[scheduler\] needs T_max"),
        ('device = "cpu"', 'device = "quantum"', r":19:1: "),
        ("lr = 0.01", "lr = = 1", r":12:6: this is not TOML: Invalid value"),
        ("EarlyStopping", "EarlyStop", r":24:1: unknown callback 'EarlyStop'; did you mean 'EarlyStopping'\?"),
        ("batch_size = 50", "batch_size = 0", r":4:1: \[data\] cannot be loaded: batch_size"),
        (
            'layers = [["Conv2d"',
            'file = "none.py"\nname = "make"\n#',
            r":2:1: file '.*none.py' of \[model\] is no Python",
        ),
        ('layers = [["Conv2d"', 'load = ""\n#', r":2:1: load of \[model\]: .* cannot be read: this is a folder"),
        ('layers = [["Conv2d"', 'load = "none.netcl"\n#', r":2:1: load of \[model\]: .*none.netcl: cannot be read"),
    ],
)
def test_a_wrong_configuration_is_told_with_its_place(
    config: Path, capsys: Any, old: str, new: str, message: str
) -> None:
    config.write_text(CONFIG.replace(old, new, 1), encoding="utf-8")
    code, out, error = told(capsys, "train", config)
    assert code == 2
    assert out == ""
    assert re.search(message, error), error


@pytest.mark.parametrize(
    ("line", "replaced", "name"),
    [
        ("ema = 0.5", "ema = 256.99", "ema"),
        ("ema = 0.5", "ema = nan", "ema"),
        ("lr = 0.01", "lr = inf", "lr"),
        ("lr = 0.01", 'lr = "fast"', "lr"),
        ("n = 300", "n = 123456789012345678901234567890", "n"),
        ("epochs = 2", "epochs = 2.5", "epochs"),
        ("epochs = 2", "seed = -1", "seed"),
        ("batch_size = 50", "batch_size = true", "batch_size"),
        ("batch_size = 50", "augment = [[1]]", "augment"),
        ("batch_size = 50", 'mean = ["a"]\nstd = [1.0]', "mean"),
        ("batch_size = 50", "mean = [0.0]\nstd = [0.0]", "std"),
        ('output = "out"', 'output = "a\\u0000b"', "output"),
        ("patience = 3", "patience = [3]", "patience"),
        ("T_max = 2", "T_max = {}", "T_max"),
        ("T_max = 2", f"T_max = {'9' * 5000}", ""),
        ("T_max = 2", f"T_max = {'[' * 5000}{']' * 5000}", ""),
    ],
)
def test_a_value_of_the_wrong_kind_is_a_config_error(config: Path, line: str, replaced: str, name: str) -> None:
    """With its name, the value's file and the line; `ema = 256.99` was a ValueError without any of them."""
    from netcl.core.device import device
    from netcl.core.errors import ConfigError
    from netcl.trainer.cli.build import build
    from netcl.trainer.cli.config import Config

    config.write_text(CONFIG.replace(line, replaced), encoding="utf-8")
    with device("cpu"), pytest.raises(ConfigError) as caught:
        build(Config(config))
    file, number, message = str(caught.value).removeprefix(str(config)).split(":", 2)
    assert (file, name in message) == ("", True)
    if name:
        written = replaced.splitlines()[-1 if name == "std" else 0]
        assert config.read_text().splitlines()[int(number) - 1] in (written, f"[{written.split()[0]}]")


def test_settings_are_told_with_their_own_place(config: Path, capsys: Any) -> None:
    code, _, error = told(capsys, "train", config, "--set", "optimizer.lr=fast")
    assert code == 2
    assert "--set optimizer.lr: lr in [optimizer] must be a number, got the text 'fast'" in error
    assert told(capsys, "train", config, "--set", "optimizer")[0] == 2
    code, _, error = told(capsys, "train", config.parent / "none.toml")
    assert code == 2
    assert "none.toml: the configuration cannot be read: No such file" in error
    with pytest.raises(SystemExit) as wrong:
        main(["trane"])
    assert wrong.value.code == 2
    assert told(capsys)[0] == 2


def test_files_of_the_users_own(config: Path, capsys: Any) -> None:
    (config.parent / "mine.py").write_text(
        "import numpy as np\nfrom netcl import nn\n"
        "def make(width: int) -> nn.Module:\n    return nn.Sequential(nn.Flatten(), nn.Linear(4, width))\n"
        "def data(count: int):\n    x = np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)\n"
        "    return x, (x.sum(1) > 0).astype(np.int64)\n",
        encoding="utf-8",
    )
    config.write_text(
        '[model]\nfile = "mine.py"\nname = "make"\nwidth = 2\n[data]\nfile = "mine.py"\nname = "data"\ncount = 64\n'
        '[trainer]\ndevice = "cpu"\nepochs = 2\noutput = "out"\n',
        encoding="utf-8",
    )
    assert told(capsys, "train", config)[0] == 0
    config.write_text(config.read_text(encoding="utf-8").replace("width", "with"), encoding="utf-8")
    code, _, error = told(capsys, "train", config)
    assert code == 2
    assert "unknown key 'with' in [model]; did you mean 'width'?" in error


def test_errors_of_a_run_are_one_line(config: Path, capsys: Any) -> None:
    config.write_text(CONFIG.replace("256, 10", "255, 10"), encoding="utf-8")
    code, _, error = told(capsys, "train", config)
    assert code == 1
    assert error.startswith("netcl: ShapeError: ")
    assert len(error.splitlines()) <= 2
    code, _, error = told(capsys, "evaluate", config)
    assert code == 2
    assert "there is no model in" in error
    code, _, error = told(capsys, "predict", config, "none.npy", "--device", "cpu")
    assert code == 1
    assert "netcl: CheckpointError" in error


@pytest.mark.level("profiling")
def test_devices_profile_and_bench(config: Path, capsys: Any) -> None:
    code, out, _ = told(capsys, "devices", "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert sum(device["default"] for device in found) == 1
    assert any(device["selector"] == "cpu" and device["gflops"] > 0 for device in found)
    code, out, _ = told(capsys, "devices")
    assert code == 0
    assert "NumPy" in out
    assert "GFLOP/s" in out
    code, out, _ = told(capsys, "bench", "--devices", "cpu", "--runs", "1", "--json")
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]  # PyTorch's is one of them if it is installed
    assert {row["selector"] for row in rows} - {"pytorch"} == {"cpu"}
    assert all(row["seconds"]["training step, digits"] > 0 for row in rows)
    code, out, _ = told(capsys, "profile", config, "--steps", "3", "--folder", config.parent / "profile")
    assert code == 0
    assert "ms in" in out
    trace = json.loads((config.parent / "profile" / "trace.json").read_text(encoding="utf-8"))
    assert trace["traceEvents"]
    assert "<svg" in (config.parent / "profile" / "roofline.html").read_text(encoding="utf-8")


@pytest.mark.level("profiling")
def test_a_roofline_is_written_as_page_and_as_picture(config: Path, capsys: Any) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    picture, page = config.parent / "roofline.png", config.parent / "roofline.html"
    for file in (picture, page):
        code, out, error = told(capsys, "profile", config, "--steps", "1", "--roofline", file)
        assert code == 0, error
        assert f"roofline: {file}" in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "operations per byte" in page.read_text(encoding="utf-8")


@pytest.mark.level("profiling")
@pytest.mark.parametrize(("what", "sizes"), [("matmul", "4 5 6"), ("conv2d", "1 2 6 6 3 3 3")])
def test_tune_measures_the_kernels_of_a_shape(
    what: str, sizes: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setenv("NETCL_CACHE_DIR", str(tmp_path))
    code, out, error = told(capsys, "tune", what, *sizes.split(), "--device", "cpu")
    assert code == 0, error
    assert out.startswith(f"{what} {sizes} float32 on cpu, NumPy")
    assert "KernelVariant" not in out
    assert "GFLOP/s" in out


def test_a_roofline_that_cannot_be_written_is_refused_before_the_profile(
    config: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit):
        main(["profile", str(config), "--roofline", "roofline.docx"])
    assert "ends in .html, .png, .svg or .pdf, got roofline.docx" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit):
        main(["profile", str(config), "--roofline", "roofline.png"])
    assert 'pip install "netcl-trainer[plot]"' in capsys.readouterr().err


@pytest.mark.timing
def test_the_speed_of_a_device_is_that_of_finished_products(handle: DeviceHandle) -> None:
    a = Tensor.from_host(handle.queue, np.ones((512, 512), np.float32))
    seconds = []
    for _ in range(7):
        begin = time.perf_counter()
        ops.matmul(a, a)
        handle.queue.finish()
        seconds.append(time.perf_counter() - begin)
    # A launch alone takes a fraction of a millisecond, which would be thousands of GFLOP/s on a CPU.
    assert 0 < _matmul_gflops(handle) < 4 * 2 * 512**3 / min(seconds) * 1e-9


def test_weights_travel(config: Path, capsys: Any) -> None:
    assert told(capsys, "train", config, "--set", "trainer.epochs=1")[0] == 0
    folder = config.parent / "out"
    model = io.load_model(folder / "model.netcl")
    for kind, suffix in (("safetensors", ".safetensors"), ("torch", ".pt")):
        code, out, _ = told(capsys, "export", folder / "model.netcl", "--to", kind)
        assert code == 0
        assert out.strip() == str(folder / f"model{suffix}")
    code, _, _ = told(capsys, "convert", folder / "model.pt", folder / "again.safetensors")
    assert code == 0
    again = io.load_safetensors(folder / "again.safetensors")
    for name, tensor in model.state_dict().items():
        assert np.array_equal(np.asarray(again[name].to_host()), tensor.to_host())


@pytest.mark.level("programs")
def test_a_model_is_exported_to_onnx(config: Path, capsys: Any) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    assert told(capsys, "train", config, "--set", "trainer.epochs=1")[0] == 0
    folder = config.parent / "out"
    code, out, _ = told(capsys, "export", folder / "model.netcl", "--to", "onnx", "--shape", "1,1,8,8")
    assert code == 0
    assert (folder / "model.onnx").stat().st_size > 1000
    code, _, error = told(capsys, "export", folder / "model.netcl", "--to", "onnx")
    assert code == 2
    assert "give the shape of an input" in error


def test_what_cannot_be_converted(config: Path, capsys: Any) -> None:
    folder = config.parent
    io.save_torch({"weight": np.zeros(3, np.float32)}, folder / "model.pt")
    code, _, error = told(capsys, "convert", folder / "model.pt", folder / "back.netcl")
    assert code == 2
    assert "holds a model, and the source has weights alone" in error
    code, _, error = told(capsys, "convert", folder / "model.pt", folder / "back.xyz")
    assert code == 2
    assert "goes by the suffix" in error


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals to send to a process")
@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_is_saved_and_says_how_to_go_on(config: Path, number: int, code: int) -> None:
    settings = ["--set", "trainer.epochs=100000"]
    process = subprocess.Popen(
        [*COMMAND, "train", str(config), *settings], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while not process.stdout.readline().startswith("epoch"):
        assert process.poll() is None
    process.send_signal(number)
    start = time.monotonic()
    out, error = process.communicate(timeout=60)
    assert process.returncode == code, error
    assert "go on with: netcl train" in out
    assert time.monotonic() - start < 20
    assert io.verify(config.parent / "out" / "last.netcl")["type"] == "checkpoint"


def test_doctor_ends_with_the_worst_that_was_found(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """netcl-core's own command examines the devices; its codes come through."""
    asked: list[list[str]] = []

    def call(command: list[str]) -> int:
        asked.append(command[1:])
        return 1 if "doctor" in command else 0

    monkeypatch.setattr(subprocess, "call", call)
    assert told(capsys, "doctor")[0] == 1
    assert told(capsys, "doctor", "--full")[0] == 1
    report, examination = ["-m", "netcl.core"], ["-m", "netcl.core", "doctor"]
    assert asked == [report, examination, report, [*examination, "--full"]]
    assert told(capsys, "doctor", "--html", "doctor.html")[0] == 1
    assert asked[-1] == [*examination, "--html", "doctor.html"]


# -- beginning a project -----------------------------------------------------------------------------------------------


def test_doctor_suggests_the_faster_driver() -> None:
    """It said "Nothing is missing" on PoCL, where Intel's runtime was faster."""
    from netcl.trainer.cli.devices import driver_advice

    lines = driver_advice([("pocl:0", True, 2e-3), ("intel:0", False, 1e-3)])
    assert lines[1:] == [
        "  intel:0         1.00 ms",
        "* pocl:0          2.00 ms",
        "intel:0 is 2.0 times as fast as the default here: NETCL_DEVICE=intel:0",
    ]
    assert driver_advice([("pocl:0", False, 2e-3), ("intel:0", True, 1e-3)])[-1] == "  pocl:0          2.00 ms"
    assert "netcl-core[intel]" in driver_advice([("pocl:0", True, 2e-3)])[-1]


KINDS = ["cnn", "mlp", "table", "gpt", "finetune"]


def test_the_announced_model_is_the_best_one(config: Path, capsys: Any) -> None:
    """What `train` announces, `evaluate` measures and the report shows are of one epoch."""
    settings = ["--set", "trainer.epochs=4", "--set", "optimizer.lr=0.3", "--set", "trainer.ema=0.0"]
    code, out, _ = told(capsys, "train", config, *settings)
    assert code == 0
    found = re.search(r"model (\S+), epoch (\d) of 4: val_loss (\S+)", out)
    assert found is not None
    with (config.parent / "out" / "history.csv").open(encoding="utf-8") as file:
        losses = [float(row["val_loss"]) for row in csv.DictReader(file)]
    assert int(found[2]) == int(np.argmin(losses)) + 1
    measured = json.loads(told(capsys, "evaluate", config, *settings, "--json")[1])
    assert measured["model"] == found[1]
    assert measured["loss"] == pytest.approx(min(losses), rel=1e-4)
    report = (config.parent / "out" / "report.html").read_text(encoding="utf-8")
    assert f"<div><b>{found[2]}</b><span>best epoch</span></div>" in report


def test_a_second_run_has_its_own_folder(config: Path, capsys: Any) -> None:
    assert told(capsys, "train", config)[0] == 0
    first = (config.parent / "out" / "model.netcl").read_bytes()
    code, out, _ = told(capsys, "train", config, "--set", "optimizer.lr=0.02")
    assert (code, "out has a run already; give --overwrite to replace it" in out) == (0, True)
    assert f"model {config.parent / 'out-2' / 'model.netcl'}" in out
    assert (config.parent / "out" / "model.netcl").read_bytes() == first
    measured = json.loads(told(capsys, "evaluate", config, "--json")[1])
    assert measured["model"] == str(config.parent / "out-2" / "model.netcl")
    code, out, _ = told(capsys, "train", config, "--resume", "auto", "--set", "optimizer.lr=0.02")
    assert (code, f"nothing to train: the run of {config.parent / 'out-2' / 'last.netcl'} has its 2 epochs" in out) == (
        0,
        True,
    )
    code, out, _ = told(capsys, "train", config, "--overwrite", "--set", "optimizer.lr=0.02")
    assert (code, "has a run already" in out) == (0, False)
    assert (config.parent / "out" / "model.netcl").read_bytes() != first
    assert not (config.parent / "out-3").exists()


def test_a_monitor_that_no_epoch_has_is_refused_before_training(config: Path, capsys: Any) -> None:
    code, out, error = told(capsys, "train", config, "--set", "callbacks.EarlyStopping.monitor=val_los")
    assert (code, "epoch 1" in out) == (1, False)
    assert "EarlyStopping monitors 'val_los', but" in error
    assert "did you mean 'val_loss'?" in error


@pytest.mark.parametrize("kind", KINDS)
def test_a_configuration_of_init_trains(kind: str, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = told(capsys, "init", kind)
    assert code == 0
    assert f"cd {kind} && " in out
    folder = tmp_path / kind
    if kind == "finetune":  # its train.py writes the features
        features = nn.Sequential(nn.Conv2d(1, 32, 3), nn.BatchNorm2d(32))
        io.save_safetensors(features.state_dict(), folder / "features.safetensors")
    settings = ["--set", "trainer.epochs=1", "--set", "trainer.device=cpu"]
    assert told(capsys, "train", folder / "train.toml", *settings)[0] == 0
    assert (folder / "runs" / kind / "model.netcl").is_file()


@pytest.mark.deep
@pytest.mark.timeout(320)
@pytest.mark.parametrize("kind", KINDS)
def test_a_script_of_init_trains(kind: str, tmp_path: Path) -> None:
    assert main(["init", kind, str(tmp_path)]) == 0
    ran = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    if kind != "gpt":
        assert float(ran.stdout.split()[-1]) > 0.9  # the accuracy


def test_init_says_how_to_run_what_it_wrote(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert "run it:  cd 'a b' && " in told(capsys, "init", "mlp", "a b")[1]
    out = told(capsys, "init", "finetune", ".")[1]
    assert "cd " not in out
    assert "then:    netcl train train.toml" in out  # the configuration reads a file that the script writes
    code, _, error = told(capsys, "train", "train.toml")
    assert code == 2
    assert "features.safetensors is missing: python train.py writes it" in error


@pytest.mark.parametrize(
    ("given", "meant"),
    [("profil", "profile"), ("init fintune", "finetune"), ("train --sett a=1", "--set"), ("doctor --ful1", "--full")],
)
def test_a_wrong_word_suggests_the_right_one(given: str, meant: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*given.split(), "train.toml"])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.rstrip().endswith(f"did you mean {meant}?")
    assert f"usage: netcl {given.split()[0] if ' ' in given else ''}" in error


def test_init_overwrites_nothing(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "train.py").write_text("mine", encoding="utf-8")
    code, _, error = told(capsys, "init", "cnn", tmp_path)
    assert code == 2
    assert "has train.py already" in error
    assert (tmp_path / "train.py").read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "train.toml").exists()


def test_a_table_without_its_target_names_the_columns(tmp_path: Path, capsys: Any) -> None:
    assert main(["init", "mlp", str(tmp_path)]) == 0
    path = tmp_path / "train.toml"
    path.write_text(path.read_text(encoding="utf-8").replace('target = "kind"', ""), encoding="utf-8")
    table = tmp_path / "table.csv"
    table.write_text("width,height,weight\n1,2,3\n4,5,6\n", encoding="utf-8")
    code, _, error = told(capsys, "train", path)
    assert code == 2
    assert "train.toml:15:1: [data] needs target, the column to learn, one of width, height, weight" in error
    assert 'write target = "weight"' in error


@pytest.fixture
def extension(tmp_path: Path, monkeypatch: Any) -> Iterator[None]:
    """Yields a distribution on the path that adds the command greet."""
    info = tmp_path / "netcl_greetings-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: netcl-greetings\nVersion: 1.0\nSummary: says hello\n")
    (info / "entry_points.txt").write_text("[netcl.commands]\ngreet = greetings:main\ntrain = greetings:main\n")
    text = "def main(arguments):\n    print(arguments)\n    if '--fail' in arguments: raise OSError\n    return 7\n"
    (tmp_path / "greetings.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    extensions.commands.cache_clear()
    yield
    extensions.commands.cache_clear()


def test_a_distribution_adds_a_command(extension: None, capsys: Any) -> None:
    assert told(capsys, "greet", "-h", "--lr", "x") == (7, "['-h', '--lr', 'x']\n", "")
    assert re.search(r"greet +says hello \(netcl-greetings\)", parser().format_help())
    assert "netcl-greetings 1.0\n" in told(capsys, "--version")[1]
    with pytest.raises(OSError):  # the command's own
        main(["greet", "--fail"])
    with pytest.raises(SystemExit):
        main(["gret"])
    assert "did you mean greet?" in capsys.readouterr().err


def test_a_command_of_netcl_stays_its_own(extension: None, capsys: Any) -> None:
    code, _, error = told(capsys, "train", "absent.toml")
    assert code == 2
    assert "absent.toml" in error


def test_run_without_its_distribution_says_what_to_install(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(extensions, "commands", dict)
    code, _, error = told(capsys, "run", "train.py", "--lr", "3")
    assert (code, error) == (2, "netcl: run is a command of netcl-torch: pip install netcl-torch\n")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_the_commands(shell: str, capsys: Any) -> None:
    pytest.importorskip("shtab", reason="needs shtab: pip install netcl-trainer[completion]")
    code, out, _ = told(capsys, "completion", shell)
    assert code == 0
    assert all(name in out for name in ("doctor", "train", "--resume", "finetune"))


def test_completion_without_its_library_says_what_to_install(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, _, error = told(capsys, "completion", "bash")
    assert code == 2
    assert "pip install shtab" in error
