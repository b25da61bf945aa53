"""Data files that are damaged or ask for more than they hold: ValueError with the file, and the line of a table."""

from __future__ import annotations

import csv
import gzip
import io
import os
import pickle
import struct
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl.data
from netcl.data import Budget, CSVDataset, MNISTArrays, NpyDataset, datasets
from netcl.data.datasets import CIFAR10


def table(tmp_path: Path, text: str) -> Path:
    (tmp_path / "t.csv").write_text(text)
    return tmp_path / "t.csv"


# -- CSV -------------------------------------------------------------------------------------------------------------


def test_an_underscore_is_no_part_of_a_number(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"t\.csv, line 3, column 'a': '1_000' is no number"):
        CSVDataset(table(tmp_path, "a,b\n1,2\n1_000,2\n"))


def test_an_underscore_is_no_part_of_a_target(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"t\.csv, line 2, column 'b': '1_000' is no number"):
        CSVDataset(table(tmp_path, "a,b\n1,1_000\n"), target="b")


def test_a_target_beyond_int64_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"t\.csv, line 3, column 'b': '9223372036854775808' does not fit into int64"):
        CSVDataset(table(tmp_path, f"a,b\n1,1\n1,{2**63}\n"), target="b")


@pytest.mark.parametrize("target", [None, "b"])
def test_a_number_beyond_float32_is_an_error(target: str | None, tmp_path: Path) -> None:
    """It became infinite, with a warning of NumPy that named no file."""
    with pytest.raises(ValueError, match=r"t\.csv, line 3, column 'b': '-1e39' does not fit into float32"):
        CSVDataset(table(tmp_path, "a,b\n1,0.5\n1,-1e39\n"), target=target)
    assert np.isinf(CSVDataset(table(tmp_path, "a,b\n1,inf\n1,-Infinity\n"))[1][1])


def test_a_cell_may_be_longer_than_the_limit_of_the_module_csv(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    cell = " " * 200_000 + "7"
    assert CSVDataset(table(tmp_path, f"a\n{cell}\n"))[0] == 7
    assert csv.field_size_limit() == before


def test_a_table_in_another_encoding_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("a,b\n1,2\n".encode("utf-16"))
    with pytest.raises(ValueError, match=r"t\.csv"):
        CSVDataset(tmp_path / "t.csv")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs a list of the process's files: Linux")
@pytest.mark.parametrize("kind", [CSVDataset, NpyDataset])
def test_a_folder_is_refused_and_closed(kind: Any, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(ValueError, match="no regular file"):
            kind(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    caught: list[BaseException] = []

    def call() -> None:
        try:
            CSVDataset(tmp_path / "pipe")
        except ValueError as error:
            caught.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(20)
    assert caught


# -- NumPy -----------------------------------------------------------------------------------------------------------


def test_a_npz_under_the_name_of_a_npy(tmp_path: Path) -> None:
    with open(tmp_path / "a.npy", "wb") as file:
        np.savez(file, a=np.ones(3))
    with pytest.raises(ValueError, match=r"a\.npy is no \.npy file"):
        NpyDataset(tmp_path / "a.npy")


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, ",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
        "\\",
        "(" * 500,
    ],
)
def test_a_damaged_header_names_its_file(header: str, tmp_path: Path) -> None:
    text = header.encode() + b"\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + bytes(64))
    with pytest.raises(ValueError, match=r"a\.npy"):
        NpyDataset(tmp_path / "a.npy")


# -- IDX -------------------------------------------------------------------------------------------------------------


def mnist(tmp_path: Path, images: bytes) -> Path:
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(images, 1))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, 2) + bytes(2))
    return tmp_path


def test_the_header_decides_how_much_is_inflated(tmp_path: Path) -> None:
    root = mnist(tmp_path, struct.pack(">4B3I", 0, 0, 8, 3, 2, 2, 2) + bytes(100 << 20))
    tracemalloc.start()
    with pytest.raises(ValueError, match="should hold 8 values"):
        MNISTArrays(root)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 << 20


def test_what_is_inflated_is_not_kept_twice(tmp_path: Path) -> None:
    """GzipFile returns a second copy of all that is read by one call: 200 MB of pixels took 386."""
    root = mnist(tmp_path, struct.pack(">4B3I", 0, 0, 8, 3, 2, 5000, 3200) + bytes(32_000_000))
    tracemalloc.start()
    MNISTArrays(root)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40_000_000


@pytest.mark.parametrize("folder", [".", "MNIST/raw"])
def test_labels_are_charged_as_int64(folder: str, tmp_path: Path) -> None:
    """Images without pixels may be as many as the labels: 400 KB of labels made 1.7 GB."""
    place = tmp_path / folder
    place.mkdir(parents=True, exist_ok=True)
    count = 40_000_000
    (place / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(struct.pack(">4B3I", 0, 0, 8, 3, count, 0, 0)))
    (place / "train-labels-idx1-ubyte.gz").write_bytes(
        gzip.compress(struct.pack(">4BI", 0, 0, 8, 1, count) + bytes(count), 1)
    )
    read = MNISTArrays if folder == "." else datasets.MNIST
    with pytest.raises(ValueError, match=r"labels-idx1-ubyte\.gz.* takes 320,000,000 bytes.*pass budget="):
        read(tmp_path)


def test_a_header_beyond_the_budget_is_refused(tmp_path: Path) -> None:
    root = mnist(tmp_path, struct.pack(">4B3I", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 1))
    with pytest.raises(ValueError, match=r"images-idx3-ubyte\.gz.*pass budget="):
        MNISTArrays(root)


def test_the_budget_is_an_argument(tmp_path: Path) -> None:
    root = mnist(tmp_path, struct.pack(">4B3I", 0, 0, 8, 3, 2, 2, 2) + bytes(8))
    assert len(MNISTArrays(root)) == 2
    with pytest.raises(ValueError, match=r"images-idx3-ubyte\.gz.*pass budget="):
        MNISTArrays(root, budget=Budget(bytes=-(10**6)))


# -- pickles of arrays -----------------------------------------------------------------------------------------------


def cifar(tmp_path: Path, program: bytes) -> Path:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    (folder / "test_batch").write_bytes(program)
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": ["a"]}, 2))
    return tmp_path


def test_a_pair_of_a_pair_of_pairs_is_no_key(tmp_path: Path) -> None:
    tower = b")" + b"q\x00h\x00\x86" * 60
    with pytest.raises(ValueError, match="test_batch"):
        CIFAR10(cifar(tmp_path, b"\x80\x02}" + tower + b"K\x01s."), train=False)


def test_a_list_of_twice_a_list_of_twice_lists(tmp_path: Path) -> None:
    lists = b"(lq\x00" + b"".join(b"(h%ch%cl" % (at, at) + b"q%c" % (at + 1) for at in range(60))
    with pytest.raises(ValueError, match="test_batch"):
        CIFAR10(cifar(tmp_path, b"\x80\x02}X\x04\0\0\0data" + lists + b"s."), train=False)


def test_an_array_is_not_made_of_a_number(tmp_path: Path) -> None:
    """bytes() of a number is that many zeros: a folder of 400 KB took 3.4 GB."""
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR(K\x01K\x02M\x00\x0c\x86"
        b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR\x89J" + struct.pack("<i", 2 * 3072) + b"tb"
    )
    labels = b"X\x06\0\0\0labels](K\x00K\x00e"
    with pytest.raises(ValueError, match=r"test_batch.*expected an array of bytes, got int"):
        CIFAR10(cifar(tmp_path, b"\x80\x02}(X\x04\0\0\0data" + array + labels + b"u."), train=False)


def test_instructions_of_a_pickle_are_charged(tmp_path: Path) -> None:
    """An instruction of one byte makes an empty list: 10 MB took 780 MB and 5 s."""
    with pytest.raises(ValueError, match=r"test_batch.*the instructions of the pickle.*Budget"):
        CIFAR10(cifar(tmp_path, b"\x80\x02(" + b"]" * 2_000_000 + b"t."), train=False)


def test_a_pickle_with_frames_is_read(tmp_path: Path) -> None:
    entry = {"data": np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072), "labels": [1, 2]}
    found = CIFAR10(cifar(tmp_path, pickle.dumps(entry, 4)), train=False)
    np.testing.assert_array_equal(found.data.transpose(0, 3, 1, 2).reshape(2, 3072), entry["data"])


def test_labels_of_another_kind_name_their_file(tmp_path: Path) -> None:
    file = io.BytesIO()
    pickle.dump({"data": np.zeros((1, 3072), np.uint8), "labels": [None]}, file, 2)
    with pytest.raises(ValueError, match="test_batch"):
        CIFAR10(cifar(tmp_path, file.getvalue()), train=False)


# -- budgets of the readers with torchvision's names, and of the binary records


@pytest.mark.parametrize("train", [True, False])
def test_arrays_of_cifar_in_a_budget(train: bool, tmp_path: Path) -> None:
    batch = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 2]}
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (folder / name).write_bytes(pickle.dumps(batch, 2))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": ["a"] * 10}, 2))
    assert len(CIFAR10(tmp_path, train)) == (10 if train else 2)
    with pytest.raises(ValueError, match=r"(data_batch_1|test_batch).*Budget\(items=0\)"):
        # Of the 6 KB of a batch, one item for every 8 bytes is free: a list of a million labels is more.
        (folder / ("data_batch_1" if train else "test_batch")).write_bytes(pickle.dumps({b"labels": [None] * 10**6}, 2))
        CIFAR10(tmp_path, train, budget=Budget(items=0))


def test_sizes_of_digits_in_a_budget(tmp_path: Path) -> None:
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    images = struct.pack(">4B3I", 0, 0, 8, 3, 2000, 28, 28) + bytes(2000 * 28 * 28)
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, 2000) + bytes(2000))
    assert len(datasets.MNIST(tmp_path, train=False)) == 2000
    with pytest.raises(ValueError, match=r"t10k-images.*Budget\(bytes=1,000\)"):
        datasets.MNIST(tmp_path, train=False, budget=Budget(bytes=1000))


def test_pixels_in_a_budget(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    (tmp_path / "cats").mkdir()
    image.new("RGB", (300, 200)).save(tmp_path / "cats" / "one.png")
    assert datasets.ImageFolder(tmp_path)[0][0].size == (300, 200)
    narrow = datasets.ImageFolder(tmp_path, budget=Budget(bytes=1000))
    with pytest.raises(ValueError, match=r"one\.png.*300 x 200 pixels"):
        narrow[0]
    (tmp_path / "cats" / "one.png").write_bytes(b"\x89PNG and no more")
    with pytest.raises(ValueError, match=r"one\.png cannot be read"):
        datasets.ImageFolder(tmp_path)[0]


@pytest.fixture
def pictures(tmp_path: Path) -> Any:
    """Returns a function that writes a file of a folder of images, and returns what reads it as each class does."""
    pytest.importorskip("PIL.Image", reason="needs Pillow")
    (tmp_path / "cats").mkdir()

    def written(name: str, data: bytes) -> list[Any]:
        (tmp_path / "cats" / name).write_bytes(data)
        return [lambda: netcl.data.ImageFolderArrays(tmp_path)[0], lambda: datasets.ImageFolder(tmp_path)[0]]

    return written


def encoded(image: Any, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def test_few_bytes_of_many_pixels_are_refused(pictures: Any) -> None:
    """A PNG of 34 KB took 600 MB."""
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    for read in pictures("one.png", encoded(image.new("L", (5900, 5900)), "PNG")):
        with pytest.raises(ValueError, match=r"one\.png.*5900 x 5900 pixels takes.*pass budget="):
            read()


def test_pixels_are_not_kept_twice(pictures: Any) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    read, _ = pictures("one.png", encoded(image.new("RGB", (3000, 2000), (1, 2, 3)), "PNG"))
    tracemalloc.start()
    pixels, _ = read()
    peak = tracemalloc.get_traced_memory()[1]  # without the pixels in Pillow's own memory
    tracemalloc.stop()
    assert peak < 28_000_000
    assert pixels.shape == (3, 2000, 3000)
    np.testing.assert_array_equal(pixels, np.broadcast_to(np.array([1, 2, 3], np.uint8)[:, None, None], pixels.shape))


def test_scans_of_a_jpeg_are_counted(pictures: Any) -> None:
    """Each scan is a pass over all pixels: one of 54 bytes, repeated in a file of 700 KB, took minutes."""
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    good = encoded(image.new("RGB", (1000, 1000)), "JPEG", progressive=True)
    for read in pictures("one.jpg", good):
        read()
    last = good.rindex(b"\xff\xda")
    scan = good[good.rindex(b"\xff\xc4", 0, last) : -2]
    for read in pictures("one.jpg", good[:-2] + scan * 2000 + good[-2:]):
        with pytest.raises(ValueError, match=r"one\.jpg.*1000 x 1000 pixels takes too long"):
            read()


@pytest.mark.skipif(os.name != "posix", reason="needs a script as a program: POSIX")
def test_no_other_program_decodes_an_image(pictures: Any, tmp_path: Path) -> None:
    """Pillow gives EPS, which is a program, to Ghostscript, whatever the name of the file ends in."""
    pictures("one.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "gs").write_text(f"#!/bin/sh\necho ran >> '{tools / 'log'}'\n")
    (tools / "gs").chmod(0o755)
    program = (
        "from netcl.data import ImageFolderArrays\n"
        "try:\n    ImageFolderArrays('classes')[0]\n"
        "except ValueError as error:\n    print(error)\n"
    )
    (tmp_path / "classes").mkdir()
    (tmp_path / "cats").rename(tmp_path / "classes" / "cats")
    path = f"{tools}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        timeout=120,
        check=True,
    )
    assert "one.png cannot be read, it is no image" in done.stdout
    assert not (tools / "log").exists()


def test_binary_records_take_a_budget(tmp_path: Path) -> None:
    (tmp_path / "test_batch.bin").write_bytes(bytes(3073 * 2))
    (tmp_path / "test.bin").write_bytes(bytes(3074 * 2))
    assert len(netcl.data.CIFAR10Arrays(tmp_path, train=False, budget=Budget(bytes=0))) == 2
    assert len(netcl.data.CIFAR100Arrays(tmp_path, train=False, budget=Budget(bytes=0))) == 2
