"""Readers of embedded, binary, image, npy and csv data."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import pickle
from importlib.resources import files

import numpy as np
import pytest

from netcl.data import DataFileError, DataLoader
from netcl.data.readers import (
    CIFAR10Arrays,
    CIFAR100Arrays,
    CSVDataset,
    ImageFolderArrays,
    MNISTArrays,
    NpyDataset,
    example_digits,
)

RNG = np.random.default_rng(0)


def test_digits_are_scikit_learns():
    x, y = example_digits()
    assert x.shape == (1797, 1, 8, 8)
    assert x.dtype == np.float32
    assert y.shape == (1797,)
    assert y.dtype == np.int64
    assert x.min() == 0
    assert x.max() == 1
    assert np.bincount(y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert y[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    # The first image as printed in scikit-learn's documentation.
    assert (x[0, 0, :2] * 16).tolist() == [[0, 0, 5, 13, 9, 1, 0, 0], [0, 0, 13, 15, 10, 15, 5, 0]]
    # Of load_digits() of scikit-learn 1.9.1: images and target as uint8.
    content = (x * 16).astype(np.uint8).tobytes() + y.astype(np.uint8).tobytes()
    assert hashlib.sha256(content).hexdigest() == "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"


def test_the_order_does_not_depend_on_the_seed_but_a_choice_does():
    whole, labels = example_digits()
    assert (example_digits(seed=5)[0] == whole).all()
    x, y = example_digits(100)
    assert x.shape == (100, 1, 8, 8)
    places = [int(np.flatnonzero((whole == image).all(axis=(1, 2, 3)))[0]) for image in x]
    assert places == sorted(set(places))
    assert places[:5] == [43, 44, 80, 108, 121]
    assert y.tolist() == labels[places].tolist()
    assert (example_digits(100)[0] == x).all()
    assert (example_digits(100, seed=1)[0] != x).any()
    for wrong in (0, 1798, -1, 2.0, True):
        with pytest.raises(ValueError, match="1797"):
            example_digits(wrong)


def test_the_digits_come_with_their_licence():
    text = (files("netcl.data") / "_digits_LICENSE.txt").read_text("utf-8")
    assert "CC BY 4.0" in text
    assert "Alpaydin" in text
    assert "Kaynak" in text


def write_idx(path, array, compress=False):
    data = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if compress else data)


@pytest.mark.parametrize(("folder", "mark", "suffix"), [("", "-", ""), ("MNIST/raw", "-", ".gz"), ("raw", ".", "")])
def test_mnist(tmp_path, folder, mark, suffix):
    images, labels = RNG.integers(0, 256, (7, 28, 28), np.uint8), RNG.integers(0, 10, 7, np.uint8)
    for part, count in (("train", 7), ("t10k", 3)):
        write_idx(tmp_path / folder / f"{part}-images{mark}idx3-ubyte{suffix}", images[:count], suffix == ".gz")
        write_idx(tmp_path / folder / f"{part}-labels{mark}idx1-ubyte{suffix}", labels[:count], suffix == ".gz")
    train, test = MNISTArrays(tmp_path), MNISTArrays(str(tmp_path), train=False)
    x, y = train.arrays
    assert x.shape == (7, 1, 28, 28)
    assert x.dtype == np.uint8
    assert (x[:, 0] == images).all()
    assert y.dtype == np.int64
    assert (y == labels).all()
    assert len(test) == 3


def test_damaged_mnist(tmp_path):
    with pytest.raises(FileNotFoundError, match="train-images-idx3-ubyte"):
        MNISTArrays(tmp_path)
    images, labels = tmp_path / "train-images-idx3-ubyte", tmp_path / "train-labels-idx1-ubyte"
    write_idx(images, np.zeros((3, 4, 4), np.uint8))
    write_idx(labels, np.zeros(2, np.uint8))
    with pytest.raises(ValueError, match="3 images and 2 labels"):
        MNISTArrays(tmp_path)
    whole = images.read_bytes()
    for data, words in (
        (whole[:-1], r"48 values.*got 47"),
        (whole + b"x", r"48 values.*got 49"),
        (whole[:10], "no IDX"),
        (b"", "no IDX"),
        (b"\0\0\x0d\x03" + whole[4:], "no IDX"),
    ):
        images.write_bytes(data)
        with pytest.raises(ValueError, match=words):
            MNISTArrays(tmp_path)
    images.unlink()
    for data in (b"no gzip", gzip.compress(whole)[:-12]):
        (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(data)
        with pytest.raises(ValueError, match="cannot be read"):
            MNISTArrays(tmp_path)


def records(count, label_bytes, classes):
    labels = RNG.integers(0, classes, (count, label_bytes)).astype(np.uint8)
    images = RNG.integers(0, 256, (count, 3072)).astype(np.uint8)
    return labels, images.reshape(-1, 3, 32, 32), np.concatenate([labels, images], 1).tobytes()


def test_cifar10(tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    labels, images, data = records(12, 1, 10)
    size = len(data) // 12
    for number in range(5):
        (folder / f"data_batch_{number + 1}.bin").write_bytes(data[2 * number * size : 2 * (number + 1) * size])
    (folder / "test_batch.bin").write_bytes(data[10 * size :])
    for dataset, part in ((CIFAR10Arrays(tmp_path), slice(10)), (CIFAR10Arrays(folder, train=False), slice(10, 12))):
        x, y = dataset.arrays
        assert x.dtype == np.uint8
        assert (x == images[part]).all()
        assert y.dtype == np.int64
        assert (y == labels[part, 0]).all()
    (folder / "test_batch.bin").write_bytes(data[:-1])
    with pytest.raises(ValueError, match="3073"):
        CIFAR10Arrays(tmp_path, train=False)
    (folder / "test_batch.bin").write_bytes(b"")
    with pytest.raises(ValueError, match="0 bytes"):
        CIFAR10Arrays(tmp_path, train=False)
    (folder / "test_batch.bin").write_bytes(b"\x0b" + data[1:size])
    with pytest.raises(ValueError, match="label 11.*10 classes"):
        CIFAR10Arrays(tmp_path, train=False)
    (folder / "data_batch_3.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"data_batch_3\.bin"):
        CIFAR10Arrays(tmp_path)


def test_cifar100(tmp_path):
    labels, images, data = records(6, 2, 20)
    (tmp_path / "train.bin").write_bytes(data)
    fine, coarse = CIFAR100Arrays(tmp_path), CIFAR100Arrays(tmp_path, coarse=True)
    assert (fine.arrays[0] == images).all()
    assert (fine.arrays[1] == labels[:, 1]).all()
    assert (coarse.arrays[1] == labels[:, 0]).all()
    with pytest.raises(FileNotFoundError, match=r"test\.bin"):
        CIFAR100Arrays(tmp_path, train=False)


def test_image_folder(tmp_path):
    image_module = pytest.importorskip("PIL.Image", reason="needs Pillow (extra image)")
    colours = {"cat/a.png": (10, 20, 30), "cat/deep/b.PNG": (1, 2, 3), "dog/c.bmp": (200, 100, 50)}
    for name, colour in colours.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        image_module.new("RGB", (5, 4), colour).save(tmp_path / name)
    (tmp_path / "dog" / "notes.txt").write_text("no image")
    data = ImageFolderArrays(tmp_path)
    assert data.classes == ["cat", "dog"]
    assert len(data) == 3
    found = [(image[:, 0, 0].tolist(), label) for image, label in data]
    assert found == [([10, 20, 30], 0), ([1, 2, 3], 0), ([200, 100, 50], 1)]
    assert data[0][0].shape == (3, 4, 5)
    assert data[0][0].dtype == np.uint8
    x, y = next(iter(DataLoader(ImageFolderArrays(tmp_path, lambda image: image / 2, size=(8, 6)), 3)))
    assert x.shape == (3, 3, 8, 6)
    assert x.max() == 100.0
    assert y.tolist() == [0, 0, 1]
    with pytest.raises(FileNotFoundError, match="dog has no file"):
        ImageFolderArrays(tmp_path, extensions=[".png"])
    with pytest.raises(FileNotFoundError, match="no folders"):
        ImageFolderArrays(tmp_path / "dog")


def test_image_folder_without_pillow(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(ImportError, match=r"netcl-data\[image\]"):
        ImageFolderArrays(tmp_path)


def test_npy_dataset(tmp_path):
    x, y = RNG.random((9, 2, 3)), np.arange(9)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    both, one = NpyDataset(tmp_path / "x.npy", tmp_path / "y.npy"), NpyDataset(str(tmp_path / "x.npy"))
    assert len(both) == 9
    assert (both[4][0] == x[4]).all()
    assert both[4][1] == 4
    assert (one[3] == x[3]).all()
    assert type(one[3]) is np.ndarray
    assert one[3].flags.writeable
    images, labels = next(iter(DataLoader(both, 4, sampler=[8, 0, 5])))
    assert type(images) is np.ndarray
    assert (images == x[[8, 0, 5]]).all()
    assert labels.tolist() == [8, 0, 5]
    pickled = pickle.dumps(both)
    assert len(pickled) < 1000
    assert (pickle.loads(pickled)[8][0] == x[8]).all()


def test_damaged_npy(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    np.save(tmp_path / "y.npy", np.zeros(4))
    np.save(tmp_path / "objects.npy", np.array([{}, 1], object), allow_pickle=True)
    (tmp_path / "text.npy").write_text("hello")
    (tmp_path / "short.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-9])
    (tmp_path / "empty.npy").write_bytes(b"")
    for names, words in (
        (["x", "y"], "one length"),
        (["objects"], "objects.npy"),
        (["text"], "text.npy"),
        (["short"], "short.npy"),
        (["empty"], "empty.npy"),
        ([], "at least one file"),
    ):
        with pytest.raises(ValueError, match=words):
            NpyDataset(*(tmp_path / f"{name}.npy" for name in names))
    with pytest.raises(FileNotFoundError):
        NpyDataset(tmp_path / "missing.npy")


def table(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_text(text, "utf-8")
    return path


def test_csv_targets(tmp_path):
    path = table(tmp_path, "a,b , label\n1,2.5,0\n\n-3,1e3, 2\n")
    data = CSVDataset(path, "label")
    x, y = data.arrays
    assert x.dtype == np.float32
    assert x.tolist() == [[1, 2.5], [-3, 1000]]
    assert y.dtype == np.int64
    assert y.tolist() == [0, 2]
    assert data.columns == ["a", "b"]
    assert data.classes is None
    assert CSVDataset(path, 0).arrays[1].tolist() == [1, -3]
    assert CSVDataset(path, 1).arrays[1].dtype == np.float32
    assert CSVDataset(path, -1).arrays[1].tolist() == [0, 2]
    assert CSVDataset(path).arrays[0].shape == (2, 3)
    assert len(CSVDataset(path).arrays) == 1


def test_csv_texts_and_other_forms(tmp_path):
    data = CSVDataset(table(tmp_path, "\ufeff1;cat\n2;ant\n3;cat\n"), 1, header=False, delimiter=";")
    assert data.classes == ["ant", "cat"]
    assert data.arrays[1].tolist() == [1, 0, 1]
    assert data.columns == ["0"]


@pytest.mark.parametrize(
    ("text", "target", "words"),
    [
        ("", None, "no rows"),
        ("a,b\n", None, "no rows"),
        ("a,b\n1\n", None, "line 2: expected 2 cells, got 1"),
        ("a,b\n1,2\n3,x\n", None, "line 3, column 'b': 'x'"),
        ("a,b\n1,2\n", "c", r"no column 'c'.*\['a', 'b'\]"),
        ("a,b\n1,2\n", 2, "no column 2"),
    ],
)
def test_damaged_csv(tmp_path, text, target, words):
    with pytest.raises(ValueError, match=words):
        CSVDataset(table(tmp_path, text), target)


def picture(mode: str) -> object:
    """Returns a gray ramp of 4 x 5 pixels in a mode of Pillow."""
    pillow = importlib.import_module("PIL.Image")
    ramp = np.arange(0, 200, 10, dtype=np.uint8).reshape(4, 5)
    if mode == "I;16":
        return pillow.fromarray(ramp.astype(np.uint16) * 256 + 255)
    if mode == "RGBA":
        return pillow.fromarray(np.stack([ramp] * 3 + [np.full_like(ramp, 7)], axis=2))
    return pillow.fromarray(ramp).convert(mode)


@pytest.mark.parametrize("mode", ["L", "P", "LA", "RGB", "RGBA", "CMYK", "I;16"])
@pytest.mark.parametrize("size", [None, (4, 5)])
def test_images_of_all_modes_are_rgb(mode, size, tmp_path):
    """Transparency is dropped, and 16 bits are divided by 256; 16 bits were cut off at 255."""
    (tmp_path / "a").mkdir()
    picture(mode).save(tmp_path / "a" / ("0.tif" if mode == "CMYK" else "0.png"))
    image, label = ImageFolderArrays(tmp_path, size=size)[0]
    assert (image.shape, image.dtype, label) == ((3, 4, 5), np.uint8, 0)
    expected = np.arange(0, 200, 10, dtype=np.uint8).reshape(4, 5)
    assert (image == expected).all()


def test_an_image_of_one_bit_is_black_and_white(tmp_path):
    (tmp_path / "a").mkdir()
    picture("1").save(tmp_path / "a" / "0.png")
    assert set(np.unique(ImageFolderArrays(tmp_path)[0][0])) <= {0, 255}


def test_a_broken_file_in_a_folder_is_named(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n nothing")
    with pytest.raises(DataFileError, match=r"broken\.png cannot be read, it is no image"):
        ImageFolderArrays(tmp_path)[0]
