"""Tables in configurations: tasks, missing values, categories, weights, metrics and errors with their place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl import io, nn
from netcl.core.device import device
from netcl.data import TableEncoding
from netcl.trainer.cli import main
from netcl.trainer.cli.build import build
from netcl.trainer.cli.config import Config
from netcl.trainer.named_metrics import METRICS

CONFIG = """\
[model]
name = "TableMLP"
hidden = [16]

[data]
name = "Table"
path = "t.csv"
target = "kind"
validation = 0.25
batch_size = 32

[optimizer]
lr = 0.02

[trainer]
device = "cpu"
epochs = 6
output = "out"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Returns a configuration; its table has gaps, categories, dates, three classes, two labels and a number."""
    rng = np.random.default_rng(0)
    lines = ["age,city,day,price,kind,tall,old"]
    for number in range(240):
        age, city = rng.normal(40, 10), ["Paris", "Rome", "Oslo"][number % 3]
        kind = ["cat", "dog", "bird"][(number % 3 + (age > 40)) % 3]
        price = 3 * age + 10 * (number % 3) + rng.normal()
        gap = number % 11 == 5
        day = f"2024-{1 + number % 12:02}-{1 + number % 28:02}"
        shown = "" if gap else f"{age:.2f}"
        lines.append(f"{shown},{'?' if number % 17 == 3 else city},{day},{price:.2f},{kind},{int(age > 40)},yes")
    lines = [line if number % 2 else line.replace("yes", "no") for number, line in enumerate(lines)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = tmp_path / "t.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def told(capsys: Any, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, error = capsys.readouterr()
    return code, out, error


def trained(config: Path, capsys: Any, *settings: str) -> tuple[str, dict[str, Any], nn.Module]:
    """Returns what training printed, what evaluation measured, and the model."""
    options = [word for setting in settings for word in ("--set", setting)]
    code, out, error = told(capsys, "train", config, *options)
    assert code == 0, error
    model = config.parent / "out" / "model.netcl"
    code, measured, error = told(capsys, "evaluate", config, *options, "--model", model, "--json")
    assert code == 0, error
    return out, json.loads(measured), io.load_model(model)


# -- tasks -------------------------------------------------------------------------------------------------------------


def test_classes(config: Path, capsys: Any) -> None:
    out, measured, model = trained(config, capsys, 'data.drop=["price", "tall", "old"]')
    assert "kind    category, target           3 values: " in out
    assert "10 float32 inputs of 3 columns; classification of kind into bird, cat, dog; " in out
    assert measured["accuracy"] > 0.6
    assert model.about is not None
    assert model.about["classes"] == ["bird", "cat", "dog"]
    encoding = TableEncoding.from_dict(model.about["table"])
    assert [column.name for column in encoding.inputs] == ["age", "city", "day"]
    report = (config.parent / "out" / "report.html").read_text(encoding="utf-8")
    assert "<h2>Confusion matrix</h2>" in report
    assert "<th>bird</th><th>cat</th><th>dog</th>" in report
    assert re.search(r"said (bird|cat|dog) \(\d+\s%\)<br>is (bird|cat|dog)", report)
    best = io.load_model(next((config.parent / "out").glob("epoch_*.netcl")))
    assert best.about == model.about


def test_numbers_are_measured_in_the_units_of_the_table(config: Path, capsys: Any) -> None:
    settings = ['data.target="price"', 'data.drop=["kind", "tall", "old"]', "trainer.epochs=40"]
    names = 'trainer.metrics=["r2", "mae", "mse", "rmse"]'
    _, measured, model = trained(config, capsys, *settings, names)
    assert measured["r2"] > 0.7
    assert 1 < measured["mae"] < measured["rmse"] < 30
    assert measured["rmse"] == pytest.approx(measured["mse"] ** 0.5, rel=1e-4)
    code, out, _ = told(capsys, "predict", config.parent / "out" / "model.netcl", config.parent / "t.csv")
    assert code == 0
    lines = out.splitlines()
    values = np.array([float(line.split()[1]) for line in lines[:240]])
    table = np.genfromtxt(config.parent / "t.csv", delimiter=",", skip_header=1, usecols=3)
    assert np.corrcoef(values, table)[0, 1] > 0.9
    assert lines[-1].startswith("compared with the targets: r2 0.")
    assert model.about is not None
    assert "classes" not in model.about


def test_labels(config: Path, capsys: Any) -> None:
    settings = ['data.target=["tall", "old"]', 'data.drop=["kind", "price"]', 'trainer.class_weights="balanced"']
    out, measured, model = trained(config, capsys, *settings)
    assert "multilabel of tall, old" in out
    assert measured["accuracy"] > 0.6
    assert 0 < measured["f1"] <= 1
    assert model.about is not None
    assert model.about["classes"] == ["tall", "old"]


def test_embeddings(config: Path, capsys: Any) -> None:
    out, measured, model = trained(
        config, capsys, 'data.categories="embedding"', 'data.missing="flag"', 'data.drop=["price", "tall", "old"]'
    )
    assert "1 embeddings" in out
    assert measured["accuracy"] > 0.6
    assert [tuple(size) for size in model.embeddings] == [(5, 3)]
    model_file, table = config.parent / "out" / "model.netcl", config.parent / "t.csv"
    code, out, _ = told(capsys, "predict", model_file, table)
    assert code == 0
    assert len(out.splitlines()) == 240 + 5


def test_layers_may_be_given(config: Path, capsys: Any) -> None:
    layers = 'layers = [["Linear", 10, 8], "ReLU", ["Linear", 8, 3]]'
    text = CONFIG.replace('name = "TableMLP"\nhidden = [16]', layers)
    config.write_text(text, encoding="utf-8")
    _, measured, _ = trained(config, capsys, 'data.drop=["price", "tall", "old"]')
    assert measured["accuracy"] > 0.4


def test_outputs_of_another_width_are_refused(config: Path, capsys: Any) -> None:
    """A target of one column would be broadcast to two outputs."""
    layers = 'layers = [["Linear", 1, 2]]'
    config.write_text(CONFIG.replace('name = "TableMLP"\nhidden = [16]', layers), encoding="utf-8")
    settings = ["--set", 'data.target="price"', "--set", 'data.drop=["kind", "tall", "old", "city", "day"]']
    code, _, error = told(capsys, "train", config, *settings)
    assert code == 2
    assert "mse_loss: expected an output of the target's shape (32, 1), got (32, 2)" in error
    assert "give the model's last layer as many outputs as a target has values" in error


def test_a_validation_file_of_its_own(config: Path, capsys: Any) -> None:
    lines = (config.parent / "t.csv").read_text(encoding="utf-8").splitlines()
    (config.parent / "v.csv").write_text("\n".join([lines[0], *lines[-30:]]), encoding="utf-8")
    config.write_text(CONFIG.replace("validation = 0.25", 'validation_path = "v.csv"'), encoding="utf-8")
    out, _, _ = trained(config, capsys)
    assert "240 rows for training, 30 for validation" in out


def test_a_run_on_a_table_goes_on(config: Path, capsys: Any) -> None:
    drop = 'data.drop=["price", "tall", "old"]'
    trained(config, capsys, drop)
    code, out, error = told(capsys, "train", config, "--resume", "auto", "--set", drop, "--set", "trainer.epochs=7")
    assert (code, error) == (0, "")
    assert "epoch 7/7" in out
    assert "epoch 6/7" not in out
    code, _, error = told(capsys, "train", config, "--resume", "auto", "--set", "trainer.epochs=8")
    assert code == 1
    assert "data: " in error


# -- weights and metrics -----------------------------------------------------------------------------------------------


def test_class_weights_are_those_of_the_loss(config: Path) -> None:
    config.write_text(CONFIG.replace('device = "cpu"', ""), encoding="utf-8")

    def weights(value: str) -> list[float]:
        with device("cpu"):
            run = build(Config(config, [f"trainer.class_weights={value}"]))
            run.close()
        return [float(w) for w in run.trainer.loss_fn.weight.to_host()]  # type: ignore[union-attr]

    with device("cpu"):
        about = build(Config(config)).trainer.model.about
    assert about is not None
    encoding = TableEncoding.from_dict(about["table"])
    np.testing.assert_allclose(weights('"balanced"'), encoding.weights(), rtol=1e-6)
    assert weights("[1, 2, 3]") == [1, 2, 3]
    assert weights("{cat = 5}") == [1, 5, 1]


def test_class_weights_of_arrays_are_balanced(config: Path) -> None:
    text = '[model]\nlayers = ["Flatten", ["Linear", 64, 10]]\n[data]\nname = "example_digits"\nvalidation = 0.5\n'
    config.write_text(text + '[trainer]\nclass_weights = "balanced"\n', encoding="utf-8")
    with device("cpu"):
        run = build(Config(config))
    targets = np.array([run.train_loader.dataset[number][1] for number in range(len(run.train_loader.dataset))])
    expected = len(targets) / (10 * np.bincount(targets))
    np.testing.assert_allclose(run.trainer.loss_fn.weight.to_host(), expected, rtol=1e-6)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_can_be_named_in_a_file(name: str, config: Path, capsys: Any) -> None:
    numbers = name in ("mae", "mse", "r2", "rmse")
    settings = [f'trainer.metrics=["{name}"]', "trainer.epochs=1", f'data.target="{"price" if numbers else "kind"}"']
    _, measured, _ = trained(config, capsys, *settings)
    assert name in measured
    code, out, _ = told(capsys, "evaluate", config, "--set", settings[0], "--set", settings[2])
    assert code == 0
    assert ("true, predicted   bird  cat  dog" if name == "confusion" else f"{name} ") in out


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('target = "kind"', "", r"t\.toml:7:1: \[data\] needs target, the column to learn, one of age, city, day"),
        ('path = "t.csv"', "", r"t\.toml:5:1: \[data\] needs path"),
        ("validation = 0.25", "validation = 1.5", r"t\.toml:9:1: validation in \[data\] must be a share"),
        ("validation = 0.25", 'validation = 0.1\nvalidation_path = "t.csv"', r":10:1: \[data\] has validation and"),
        ("validation = 0.25", 'missing = "mode"', r":5:1: \[data\] cannot be made: expected missing of 'age' to be"),
        ("validation = 0.25", 'mising = "mean"', r":9:1: unknown key 'mising' in \[data\]; did you mean 'missing'"),
        ("validation = 0.25", "mean = [1.0]", r":9:1: mean in \[data\] is not for tables: their numbers are"),
        ("validation = 0.25", "types = 3", r":5:1: \[data\] cannot be made"),
        ("epochs = 6", 'metrics = ["acc"]', r":17:1: metrics in \[trainer\]: unknown metric 'acc'"),
        ("epochs = 6", 'class_weights = "equal"', r':17:1: class_weights must be "balanced", a list of numbers'),
        ("epochs = 6", "class_weights = [1, 2]", r":17:1: class_weights has 2 numbers for 3 classes"),
        ("epochs = 6", "class_weights = {cow = 2}", r":17:1: class_weights: unknown class 'cow'"),
        ("epochs = 6", 'class_weights = "balanced"\nloss = "mse_loss"', r"class_weights need the loss cross_entropy"),
    ],
)
def test_a_wrong_table_is_told_with_its_place(config: Path, capsys: Any, old: str, new: str, message: str) -> None:
    config.write_text(CONFIG.replace(old, new, 1), encoding="utf-8")
    code, out, error = told(capsys, "train", config)
    assert code == 2
    assert out == ""
    assert re.search(message, error), error


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("4o.5", r"netcl: TableError: .*t\.csv, line 10, column 'age': '4o.5' is no number within float32, and"),
        ("1,2", r"netcl: TableError: .*t\.csv, line 10: expected 7 cells, got 8"),
        ("\udcff", r"netcl: TableError: .*t\.csv, line 10: byte 0xff at character 1 is not UTF-8"),
    ],
)
def test_a_wrong_cell_is_told_with_its_line(config: Path, capsys: Any, cell: str, message: str) -> None:
    path = config.parent / "t.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[9] = cell + lines[9][lines[9].index(",") :]
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    code, _, error = told(capsys, "train", config)
    assert code == 1
    assert re.search(message, error), error
    assert len(error.splitlines()) == 1
