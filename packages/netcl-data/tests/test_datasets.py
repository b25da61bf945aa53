"""Datasets in torchvision's folders: files made here are read, damaged and missing ones are refused."""

from __future__ import annotations

import gzip
import pickle
import sys

import numpy as np
import pytest
from PIL import Image as PILImage

import netcl.data
from netcl.data import DataLoader, datasets
from netcl.data.array_pickles import read_array_pickle
from netcl.data.transforms import ToTensor

RNG = np.random.default_rng(0)
# Pixels and labels of FakeData in torchvision 0.28 under PyTorch 2.13, by the index.
FAKE = {
    0: ([225, 219, 193, 146, 216, 176, 176, 229, 82, 190, 89, 78, 30, 59, 28, 193], 6),
    2: ([247, 233, 180, 230, 202, 41, 243, 226, 25, 88, 111, 197, 0, 65, 199, 146], 9),
    "rest": ([123, 65, 90, 102, 231, 62, 87, 205, 111, 42, 194, 232, 35, 99, 53, 223, 53, 85, 70, 181, 242], 6),
}


def write_idx(path, array, compress=False):
    data = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if compress else data)


def make_mnist(root, name="MNIST", compress=False):
    """Writes 7 training and 3 test samples; returns images and labels by the name of the part."""
    made = {}
    for part, count in (("train", 7), ("t10k", 3)):
        images = RNG.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = RNG.integers(0, 10, count, dtype=np.uint8)
        ending = ".gz" if compress else ""
        write_idx(root / name / "raw" / f"{part}-images-idx3-ubyte{ending}", images, compress)
        write_idx(root / name / "raw" / f"{part}-labels-idx1-ubyte{ending}", labels, compress)
        made[part] = images, labels
    return made


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("name", ["MNIST", "FashionMNIST", "KMNIST"])
def test_mnist_reads_the_folder_of_its_name(tmp_path, name, compress):
    made = make_mnist(tmp_path, name, compress)
    kind = getattr(datasets, name)
    for train, part in ((True, "train"), (False, "t10k")):
        images, labels = made[part]
        found = kind(str(tmp_path), train=train, download=True)
        np.testing.assert_array_equal(found.data, images)
        assert found.targets.tolist() == labels.tolist()
        assert found.targets.dtype == np.int64
        image, label = found[2]
        assert (image.mode, image.size) == ("L", (28, 28))
        np.testing.assert_array_equal(np.asarray(image), images[2])
        assert type(label) is int
        assert label == labels[2]
    assert len(kind.classes) == 10
    assert found.class_to_idx[kind.classes[3]] == 3
    assert found.raw_folder == str(tmp_path / name / "raw")


def test_functions_change_samples_and_reach_the_loader(tmp_path):
    images, labels = make_mnist(tmp_path)["train"]
    found = datasets.MNIST(tmp_path, transform=ToTensor(), target_transform=lambda label: label + 1)
    (x, y), *_ = DataLoader(found, 7)
    np.testing.assert_array_equal(x, (images[:, None] / 255).astype(np.float32))
    assert y.tolist() == (labels.astype(int) + 1).tolist()
    text = repr(found).splitlines()
    assert text[:4] == [
        "Dataset MNIST",
        "    Number of datapoints: 7",
        f"    Root location: {tmp_path}",
        "    Split: Train",
    ]
    assert text[5] == "    Transform: ToTensor()"


def test_missing_files_are_named(tmp_path):
    with pytest.raises(RuntimeError, match=r"MNIST: train-images-idx3-ubyte.*netcl downloads nothing"):
        datasets.MNIST(tmp_path, download=True)
    with pytest.raises(RuntimeError, match=r"CIFAR10: data_batch_1 is not in .*cifar-10-batches-py; netcl downloads"):
        datasets.CIFAR10(tmp_path, download=True)
    with pytest.raises(RuntimeError, match=r"CIFAR100: test is not in .*cifar-100-python"):
        datasets.CIFAR100(tmp_path, train=False)


def test_a_damaged_file_is_refused(tmp_path):
    make_mnist(tmp_path)
    path = tmp_path / "MNIST" / "raw" / "train-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="should hold 7 values"):
        datasets.MNIST(tmp_path)
    write_idx(path, np.zeros(6, np.uint8))
    with pytest.raises(ValueError, match="7 images and 6 labels"):
        datasets.MNIST(tmp_path)


def write_cifar(folder, name, entry, protocol=2):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(pickle.dumps(entry, protocol=protocol))


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_cifar10(tmp_path, protocol):
    folder = tmp_path / "cifar-10-batches-py"
    planes = RNG.integers(0, 256, (5, 4, 3072), dtype=np.uint8)
    labels = RNG.integers(0, 10, (5, 4)).tolist()
    for part in range(5):
        entry = {"batch_label": "x", "labels": labels[part], "data": planes[part], "filenames": ["a"] * 4}
        write_cifar(folder, f"data_batch_{part + 1}", entry, protocol)
    write_cifar(folder, "test_batch", {b"labels": labels[0], b"data": np.asfortranarray(planes[0])}, protocol)
    names = [f"class {number}" for number in range(10)]
    write_cifar(folder, "batches.meta", {"label_names": names, "num_vis": 3072}, protocol)
    found = datasets.CIFAR10(tmp_path)
    assert len(found) == 20
    assert found.data.shape == (20, 32, 32, 3)
    assert found.targets == sum(labels, [])
    image, label = found[5]
    np.testing.assert_array_equal(np.asarray(image), planes[1, 1].reshape(3, 32, 32).transpose(1, 2, 0))
    assert label == labels[1][1]
    assert found.class_to_idx["class 7"] == 7
    np.testing.assert_array_equal(datasets.CIFAR10(tmp_path, train=False).data, found.data[:4])


# A batch as Python 2 wrote it, with its text opcodes: {"labels": [3], "data": uint8 (1, 3072) of zeros}.
PYTHON_2 = (
    b"\x80\x02}q\x01(U\x06labelsq\x02]q\x03K\x03aU\x04dataq\x04cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\n"
    b"q\x06K\x00\x85U\x01b\x87Rq\x07(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nq\x08U\x02u1K\x00K\x01\x87Rq\x09(K\x03U\x01|NNNJ"
    b"\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T\x00\x0c\x00\x00" + bytes(3072) + b"tbu."
)


def test_cifar100_and_python_2(tmp_path):
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    (folder / "test").write_bytes(PYTHON_2.replace(b"U\x06labels", b"U\x0bfine_labels"))
    write_cifar(folder, "meta", {"fine_label_names": ["apple", "bear"], "coarse_label_names": []})
    found = datasets.CIFAR100(tmp_path, train=False)
    assert found.targets == [3]
    assert found.data.shape == (1, 32, 32, 3)
    assert not found.data.any()
    assert found.classes == ["apple", "bear"]


class Harmful:
    """Calls a function when it is unpickled."""

    def __reduce__(self):
        return exec, ("import sys; sys.modules['harmed'] = sys",)


@pytest.mark.parametrize(
    "entry",
    [
        Harmful(),
        {"data": Harmful()},
        {"data": np.zeros(3, object), "labels": []},
        {"data": np.zeros((1, 3)), "labels": []},
        [1, 2],
    ],
)
def test_a_pickle_of_other_things_is_refused_and_not_run(tmp_path, entry):
    write_cifar(tmp_path / "cifar-10-batches-py", "test_batch", entry)
    with pytest.raises(ValueError, match="is no pickle of arrays|has no images|holds no dictionary"):
        datasets.CIFAR10(tmp_path, train=False)
    assert "harmed" not in sys.modules


@pytest.mark.parametrize("cut", [0, 10, 200, 3000])
def test_a_cut_pickle_is_refused(tmp_path, cut):
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(PYTHON_2[:cut])
    with pytest.raises(ValueError, match="is no pickle of arrays"):
        datasets.CIFAR10(tmp_path, train=False)


def test_damaged_pickles_are_refused_and_nothing_else_happens(tmp_path):
    whole = [
        pickle.dumps({"labels": [1], "data": np.zeros((1, 20), np.uint8)}, protocol=number) for number in (0, 2, 4)
    ]
    path = tmp_path / "batch"
    refused = 0
    for number in range(600):
        content = bytearray(whole[number % 3])
        for at, value in RNG.integers(0, [len(content), 256], (2, 2)):
            content[at] = value
        path.write_bytes(content)
        try:
            read_array_pickle(path)
        except ValueError as error:
            refused += str(path) in str(error)
    assert refused > 300


def test_fake_data_has_the_numbers_of_torchvision():
    found = datasets.FakeData(3, (1, 4, 4), 10)
    image, label = found[0]
    assert image.mode == "L"
    assert (np.asarray(image).ravel().tolist(), label) == FAKE[0]
    assert (np.asarray(found[2][0]).ravel().tolist(), found[2][1]) == FAKE[2]
    assert datasets.FakeData(3, (1, 4, 4), random_offset=2)[0][0].tobytes() == found[2][0].tobytes()
    with pytest.raises(IndexError):
        found[3]
    with pytest.raises(ValueError, match="at least 16"):
        datasets.FakeData(3, (1, 3, 3))[0]


def test_fake_data_with_a_rest_of_numbers():
    image, label = datasets.FakeData(3, (1, 3, 7), 10)[1]
    assert (np.asarray(image).ravel().tolist(), label) == FAKE["rest"]


def make_images(root, names=("cat/1.png", "cat/deep/2.PNG", "dog/3.png", "dog/notes.txt")):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("txt"):
            (root / name).write_text("none")
        else:
            PILImage.fromarray(RNG.integers(0, 256, (4, 5), dtype=np.uint8)).save(root / name)


def test_an_image_folder(tmp_path):
    make_images(tmp_path)
    found = datasets.ImageFolder(tmp_path, transform=ToTensor())
    assert found.classes == ["cat", "dog"]
    assert found.class_to_idx == {"cat": 0, "dog": 1}
    assert found.targets == [0, 0, 1]
    assert found.imgs == found.samples
    assert [path.rsplit("/", 1)[-1] for path, _ in found.samples] == ["1.png", "2.PNG", "3.png"]
    image, label = found[2]
    assert image.shape == (3, 4, 5)
    assert label == 1
    assert datasets.ImageFolder(tmp_path)[0][0].mode == "RGB"


def test_a_dataset_folder(tmp_path):
    make_images(tmp_path)
    found = datasets.DatasetFolder(str(tmp_path), lambda path: path[-9:], extensions=(".txt",), allow_empty=True)
    assert [found[at] for at in range(len(found))] == [("notes.txt", 1)]
    found = datasets.DatasetFolder(
        str(tmp_path), len, is_valid_file=lambda path: path.endswith("1.png"), allow_empty=True
    )
    assert len(found) == 1
    with pytest.raises(FileNotFoundError, match=r"the classes cat have no file that ends in \.txt"):
        datasets.DatasetFolder(str(tmp_path), len, extensions=(".txt",))
    with pytest.raises(ValueError, match="not both"):
        datasets.DatasetFolder(str(tmp_path), len, extensions=(".txt",), is_valid_file=bool)
    (tmp_path / "none").mkdir()
    with pytest.raises(FileNotFoundError, match="has no folders of classes"):
        datasets.ImageFolder(tmp_path / "none")


def test_images_are_arrays_without_pillow(tmp_path, monkeypatch):
    images, labels = make_mnist(tmp_path)["train"]
    monkeypatch.setitem(sys.modules, "PIL", None)
    image, label = datasets.MNIST(tmp_path)[1]
    assert type(image) is np.ndarray
    np.testing.assert_array_equal(image, images[1])
    assert label == labels[1]
    assert datasets.FakeData(2, (3, 4, 4))[0][0].shape == (4, 4, 3)
    with pytest.raises(ImportError, match="pip install netcl-data"):
        datasets.default_loader(__file__)


def test_two_classes_never_share_a_name():
    """netcl.data.ImageFolder gave arrays, netcl.data.datasets.ImageFolder Pillow's images."""
    kinds = {}
    for module in (netcl.data, netcl.data.readers, datasets):
        for name in module.__all__:
            if isinstance(value := getattr(module, name), type):
                kinds.setdefault(name, set()).add(value)
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


@pytest.mark.parametrize("name", ["MNIST", "CIFAR10", "CIFAR100", "ImageFolder"])
def test_an_old_name_warns_and_is_the_new_class(name):
    with pytest.warns(DeprecationWarning, match=rf"netcl.data.{name} is called netcl.data.{name}Arrays"):
        assert getattr(netcl.data, name) is getattr(netcl.data, f"{name}Arrays")
