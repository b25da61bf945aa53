"""``netcl predict``: tables, images, folders and arrays, with the names of classes, to lines, CSV, JSON and arrays."""

from __future__ import annotations

import csv
import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl import io, nn, ops
from netcl.core.device import device
from netcl.data import CSVDataset, DataLoader, TableEncoding, random_split, save_image
from netcl.data.tables.encoding import NumberInput
from netcl.data.tables.targets import ClassTarget
from netcl.optim import SGD
from netcl.trainer import Trainer
from netcl.trainer.cli import main

IMAGES = """\
[model]
layers = ["Flatten", ["Linear", 192, 2]]

[data]
name = "ImageFolder"
root = "images"
size = [8, 8]
mean = [0.5, 0.5, 0.5]
std = [0.5, 0.5, 0.5]

[optimizer]
lr = 0.01

[trainer]
device = "cpu"
epochs = 8
output = "out"
"""

NUMBERS = """\
[model]
layers = [["Linear", 2, 2]]

[data]
name = "CSVDataset"
path = "t.csv"
target = "kind"
mean = [10.0, 0.0]
std = [2.0, 1.0]

[optimizer]
lr = 0.1

[trainer]
device = "cpu"
epochs = 20
output = "out"
"""


def told(capsys: Any, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, error = capsys.readouterr()
    return code, out, error


@pytest.fixture
def images(tmp_path: Path, capsys: Any) -> Path:
    """Returns the folder of a model that tells dark images from light ones."""
    for name, value in (("dark", 0.1), ("light", 0.9)):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(6):
            plane = np.full((3, 10, 12), value + 0.01 * number, np.float32)
            save_image(plane, tmp_path / "images" / name / f"{number}.png")
    (tmp_path / "a.toml").write_text(IMAGES, encoding="utf-8")
    assert main(["train", str(tmp_path / "a.toml")]) == 0
    capsys.readouterr()
    return tmp_path


@pytest.fixture
def numbers(tmp_path: Path, capsys: Any) -> Path:
    """Returns the folder of a model that tells two kinds of rows apart."""
    rng = np.random.default_rng(0)
    rows = [(8 + 4 * (number % 2) + rng.normal(0, 0.3), rng.normal(), "ab"[number % 2]) for number in range(60)]
    lines = ["x,y,kind", *(f"{x:.3f},{y:.3f},{kind}" for x, y, kind in rows)]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "a.toml").write_text(NUMBERS, encoding="utf-8")
    assert main(["train", str(tmp_path / "a.toml")]) == 0
    capsys.readouterr()
    return tmp_path


# -- images ------------------------------------------------------------------------------------------------------------


def test_images_and_folders_have_class_names_and_probabilities(images: Path, capsys: Any) -> None:
    model, image = images / "out" / "model.netcl", images / "images" / "light" / "2.png"
    code, out, _ = told(capsys, "predict", model, image, "--device", "cpu")
    assert code == 0
    assert out.startswith(f"{image} class light ")
    code, out, _ = told(capsys, "predict", model, images / "images", "--batch-size", "5")
    lines = out.splitlines()
    assert code == 0
    assert sum(" class dark " in line for line in lines[:12]) == 6
    assert lines[12:] == [
        "compared with the targets: accuracy 100.00 % of 12",
        "true, predicted   dark  light",
        "dark                 6      0",
        "light                0      6",
    ]


def test_predictions_are_written_as_csv_and_json(images: Path, capsys: Any) -> None:
    model = images / "out" / "model.netcl"
    code, out, _ = told(capsys, "predict", model, images / "images", "--output", images / "p.csv")
    assert code == 0
    assert out.startswith(f"12 predictions {images / 'p.csv'}")
    with (images / "p.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["sample", "class", "probability", "probability of dark", "probability of light"]
    assert [row["class"] for row in rows] == ["dark"] * 6 + ["light"] * 6
    assert float(rows[0]["probability of dark"]) + float(rows[0]["probability of light"]) == pytest.approx(1)
    assert told(capsys, "predict", model, images / "images", "--output", images / "p.json")[0] == 0
    listed = json.loads((images / "p.json").read_text(encoding="utf-8"))
    assert [item["class"] for item in listed] == [row["class"] for row in rows]
    assert listed[0]["probabilities"]["dark"] == pytest.approx(float(rows[0]["probability of dark"]))
    assert told(capsys, "predict", model, images / "images", "--output", images / "p.npy")[0] == 0
    assert np.load(images / "p.npy").shape == (12, 2)
    (images / "empty").mkdir()
    (images / "empty" / "a.png").write_bytes(b"")
    assert told(capsys, "predict", model, images / "empty", "--output", images / "q.csv")[0] == 1
    assert not (images / "q.csv").exists()


def test_images_of_other_modes_and_sizes_are_predicted(images: Path, capsys: Any) -> None:
    pillow = importlib.import_module("PIL.Image")
    bright = np.full((20, 30), 230, np.uint8)
    modes = {mode: pillow.fromarray(bright).convert(mode) for mode in ("L", "1", "P", "RGBA", "CMYK", "LA")}
    modes["I;16"] = pillow.fromarray(bright.astype(np.uint16) << 8)
    (images / "new").mkdir()
    for number, picture in enumerate(modes.values()):
        picture.save(images / "new" / f"{number}.{'tif' if picture.mode == 'CMYK' else 'png'}")
    code, out, error = told(capsys, "predict", images / "out" / "model.netcl", images / "new")
    assert (code, error) == (0, "")
    assert out.count(" class light ") == len(modes)


def test_a_broken_image_is_skipped_and_named(images: Path, capsys: Any) -> None:
    (images / "images" / "dark" / "broken.png").write_bytes(b"\x89PNG nothing")
    code, out, error = told(capsys, "predict", images / "out" / "model.netcl", images / "images")
    assert code == 1
    assert "broken.png cannot be read, it is no image: its bytes are of no format that Pillow reads\n" in error
    assert out.count(" class ") == 12
    assert "accuracy 100.00 % of 12" in out
    code, _, error = told(capsys, "train", images / "a.toml")
    assert code == 1
    assert "netcl: DataFileError: " in error
    assert "broken.png cannot be read, it is no image" in error


def test_a_trainer_keeps_the_names_of_the_classes(tmp_path: Path, capsys: Any) -> None:
    """Of the data set behind a split, in the model file."""
    rng = np.random.default_rng(0)
    lines = [f"{x:.3f},{'high' if x > 0 else 'low'}" for x in rng.normal(size=40)]
    (tmp_path / "t.csv").write_text("\n".join(["x,kind", *lines]), encoding="utf-8")
    train, _ = random_split(CSVDataset(tmp_path / "t.csv", target="kind"), [0.8, 0.2], seed=0)
    with device("cpu"):
        model = nn.Sequential(nn.Linear(1, 2))
        Trainer(model, SGD(model.parameters(), lr=0.1)).fit(DataLoader(train, batch_size=8), log_every=0)
        io.save_model(model, tmp_path / "m.netcl")
    np.save(tmp_path / "x.npy", np.array([[3.0]], np.float32))
    code, out, _ = told(capsys, "predict", tmp_path / "m.netcl", tmp_path / "x.npy", "--device", "cpu")
    assert code == 0
    assert out.split()[2] in ("high", "low")


# -- tables and arrays -------------------------------------------------------------------------------------------------


def test_a_model_of_numbers_is_asked_by_a_table(numbers: Path, capsys: Any) -> None:
    model = numbers / "out" / "model.netcl"
    (numbers / "new.csv").write_text("y;x\n0;8\n0;12\n", encoding="utf-8")
    code, out, _ = told(capsys, "predict", model, numbers / "new.csv")
    assert code == 0
    assert [line.split()[:3] for line in out.splitlines()] == [["0", "class", "a"], ["1", "class", "b"]]
    code, out, _ = told(capsys, "predict", model, numbers / "t.csv")
    assert code == 0
    assert "compared with the targets: accuracy 100.00 % of 60" in out
    np.save(numbers / "x.npy", np.array([[8.0, 0.0], [12.0, 0.0]], np.float32))
    code, array, _ = told(capsys, "predict", model, numbers / "x.npy")
    assert code == 0
    assert array != out  # an array is what the model reads: CSVDataset's mean and std are in the table alone


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,z\n1,2\n", "csv has no column 'y', which the model reads; it has x, z"),
        ("x,y\n1,2\n1,?\n", "new.csv, line 3, column 'y': the value is missing"),
        ("x,y\n1,2\nq,1\n", "new.csv, line 3, column 'x': 'q' is no number within float32, as the column had"),
        ("", "new.csv holds no rows of data"),
        ("x,y\n", "there is no sample to predict"),
    ],
)
def test_a_wrong_table_is_told_with_its_line(numbers: Path, capsys: Any, text: str, message: str) -> None:
    (numbers / "new.csv").write_text(text, encoding="utf-8")
    code, _, error = told(capsys, "predict", numbers / "out" / "model.netcl", numbers / "new.csv")
    assert code == 1
    assert message in error
    assert error.startswith("netcl: ")


@pytest.mark.parametrize(
    "about",
    [
        {"classes": 3},
        {"task": ["classification"]},
        {"mean": [0.5]},
        {"mean": ["a"], "std": [1.0]},
        {"mean": [1.0], "std": [0.0]},
        {"table": {"version": 9}},
        {"table": TableEncoding([NumberInput("a", 0.0, 0.0, 1.0)], ClassTarget(["y"], ["a"], [1]), []).to_dict()},
    ],
)
def test_facts_of_a_file_that_do_not_fit_are_one_line(about: Any, tmp_path: Path, capsys: Any) -> None:
    with device("cpu"):
        model = nn.Sequential(nn.Linear(1, 3))
        model.about = about
        io.save_model(model, tmp_path / "m.netcl")
    (tmp_path / "t.csv").write_text("a\n1\n", encoding="utf-8")
    code, _, error = told(capsys, "predict", tmp_path / "m.netcl", tmp_path / "t.csv", "--device", "cpu")
    assert code == 1 or "was not trained on a table" in error
    assert len(error.splitlines()) <= 2


def test_inputs_of_another_kind_are_refused(numbers: Path, capsys: Any) -> None:
    model = numbers / "out" / "model.netcl"
    (numbers / "x.docx").write_bytes(b"")
    for arguments, code, message in (
        ([numbers / "x.docx"], 2, "expected a folder or a file that ends in one of .npy, .csv"),
        ([numbers / "none.csv"], 1, "FileNotFoundError"),
        ([numbers / "t.csv", "--output", numbers / "p.xls"], 2, "expected a name that ends in .csv, .json or .npy"),
        ([numbers / "out"], 2, "there is no file that ends in one of .bmp"),
    ):
        ended, _, error = told(capsys, "predict", model, *arguments)
        assert (ended, message in error) == (code, True), error


def test_arrays_of_other_channels_are_refused(images: Path, capsys: Any) -> None:
    np.save(images / "x.npy", np.zeros((2, 1, 8, 8), np.uint8))
    code, _, error = told(capsys, "predict", images / "out" / "model.netcl", images / "x.npy")
    assert code == 1
    assert error == "netcl: DataFileError: expected samples with 3 channels (mean and std), got (1, 8, 8)\n"


def test_a_model_without_facts_has_numbers_for_classes(tmp_path: Path, capsys: Any) -> None:
    with device("cpu"):
        ops.manual_seed(0)
        io.save_model(nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), tmp_path / "m.netcl")
    save_image(np.zeros((3, 8, 8), np.float32), tmp_path / "a.png")
    code, out, _ = told(capsys, "predict", tmp_path / "m.netcl", tmp_path / "a.png", "--device", "cpu")
    assert code == 0
    assert out.split()[1] == "class"
    assert out.split()[2] in "012"
    (tmp_path / "t.csv").write_text("a\n1\n", encoding="utf-8")
    code, _, error = told(capsys, "predict", tmp_path / "m.netcl", tmp_path / "t.csv", "--device", "cpu")
    assert code == 2
    assert "the model was not trained on a table" in error
