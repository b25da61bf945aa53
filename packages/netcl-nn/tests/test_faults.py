"""Saving when things go wrong: the old file stays whole, no temporary file stays, the error has path and bytes."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from netcl import io, nn
from netcl.io import (
    CheckpointError,
    atomic,
    load_checkpoint,
    load_model,
    load_safetensors,
    load_torch,
    save_checkpoint,
    save_model,
    save_safetensors,
    save_torch,
    verify,
)

POSIX = pytest.mark.skipif(os.name == "nt", reason="needs signals and file modes of POSIX")


@pytest.fixture
def old(tmp_path: Path) -> tuple[Path, bytes]:
    path = tmp_path / "m.netcl"
    save_model(nn.Linear(2, 2), path)
    return path, path.read_bytes()


def assert_untouched(path: Path, content: bytes) -> None:
    assert path.read_bytes() == content
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    load_model(path)


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_failing_call(call: str, old, monkeypatch) -> None:
    path, content = old

    def fail(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    if call == "write":
        monkeypatch.setattr(np.lib.format, "write_array_header_1_0", fail)
    else:
        monkeypatch.setattr(atomic.os, call, fail)
    with pytest.raises(CheckpointError, match="No space left") as caught:
        save_model(nn.Linear(100, 100), path)
    monkeypatch.undo()
    assert caught.value.path == str(path)
    assert caught.value.bytes > 40_000
    assert isinstance(caught.value.__cause__, OSError)
    assert_untouched(path, content)


def test_the_space_is_looked_at_first(old, monkeypatch) -> None:
    path, content = old
    usage = shutil.disk_usage(path.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=1000))
    with pytest.raises(CheckpointError, match="1000 bytes free"):
        save_model(nn.Linear(100, 100), path)
    assert_untouched(path, content)


def test_another_error_leaves_the_same_behind(old, monkeypatch) -> None:
    path, content = old

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_model(nn.Linear(100, 100), path)
    assert_untouched(path, content)


def test_bad_places(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(CheckpointError, match="folder"):
        save_model(model, tmp_path)
    with pytest.raises(CheckpointError, match="No such file"):
        save_model(model, tmp_path / "absent" / "m.netcl")
    with pytest.raises(CheckpointError, match="No such file"):
        save_safetensors(model, tmp_path / "absent" / "m.safetensors")


@POSIX
def test_a_link_keeps_being_one_and_the_mode_stays(old, tmp_path: Path) -> None:
    path, _ = old
    path.chmod(0o640)
    link = tmp_path / "latest"
    link.symlink_to(path)
    model = nn.Linear(5, 2)
    save_model(model, link)
    assert link.is_symlink()
    np.testing.assert_array_equal(load_model(path).weight.to_host(), model.weight.to_host())
    assert path.stat().st_mode & 0o777 == 0o640


def run(code: str, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=100, **options
    )


@POSIX
def test_a_file_size_limit(old) -> None:
    path, content = old
    code = (
        "import resource, signal, sys\n"
        "from netcl import nn\n"
        "from netcl.io import save_model, CheckpointError\n"
        "model = nn.Linear(300, 300)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n"
        "    save_model(model, sys.argv[1])\n"
        "except CheckpointError as error:\n"
        "    print('refused', error.bytes)\n"
    )
    done = run(code, str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused 36")
    assert_untouched(path, content)


@POSIX
def test_a_read_only_folder(old) -> None:
    path, content = old
    # Root may write anywhere; the child gives up that right first.
    code = (
        "import os, sys\n"
        "from netcl import nn\n"
        "from netcl.io import save_model, CheckpointError\n"
        "model = nn.Linear(3, 3)\n"
        "model.weight.to_host()\n"
        "if os.getuid() == 0:\n"
        "    os.setgroups([])\n"
        "    os.setgid(65534)\n"
        "    os.setuid(65534)\n"
        "try:\n"
        "    save_model(model, sys.argv[1])\n"
        "except CheckpointError as error:\n"
        "    print('refused', 'Permission denied' in str(error))\n"
    )
    path.parent.chmod(0o555)
    try:
        done = run(code, str(path))
    finally:
        path.parent.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "refused True\n"
    assert_untouched(path, content)


@POSIX
@pytest.mark.parametrize("times", [5, pytest.param(100, marks=[pytest.mark.deep, pytest.mark.timeout(900)])])
def test_a_killed_writer_leaves_a_whole_file(times: int, tmp_path: Path, rng) -> None:
    path = tmp_path / "m.netcl"
    code = (
        "import sys\n"
        "from netcl import nn\n"
        "from netcl.io import save_model\n"
        "models = [nn.Linear(400, 400), nn.Linear(200, 300)]\n"
        "at = 0\n"
        "while True:\n"
        "    save_model(models[at % 2], sys.argv[1])\n"
        "    at += 1\n"
        "    print(at, flush=True)\n"
    )
    for _ in range(times):
        process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        for _ in range(int(rng.integers(1, 6))):
            process.stdout.readline()
        time.sleep(float(rng.uniform(0, 0.02)))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)
        assert verify(path)["type"] == "Linear"
        assert load_model(path).weight.shape in ((400, 400), (300, 200))


def test_a_target_that_is_open_elsewhere(old) -> None:
    """On POSIX the reader keeps the old file; Windows refuses to replace it, and the old file stays."""
    path, content = old
    model = nn.Linear(7, 2)
    with open(path, "rb") as reader:
        reader.read(10)
        if os.name == "nt":
            with pytest.raises(CheckpointError, match="old file is untouched"):
                save_model(model, path)
        else:
            save_model(model, path)
        assert reader.read() == content[10:]
    if os.name == "nt":
        assert_untouched(path, content)
    else:
        np.testing.assert_array_equal(load_model(path).weight.to_host(), model.weight.to_host())


SAVERS = {"netcl": save_model, "checkpoint": save_checkpoint, "safetensors": save_safetensors, "torch": save_torch}


@pytest.mark.parametrize("form", SAVERS)
def test_every_form_is_written_whole_or_not_at_all(form: str, tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "m"
    SAVERS[form](nn.Linear(2, 2), path)
    content = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", fail)
    with pytest.raises(CheckpointError, match="No space left") as caught:
        SAVERS[form](nn.Linear(100, 100), path)
    assert caught.value.path == str(path)
    assert caught.value.bytes > 40_000
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


LOADERS = {"checkpoint": load_checkpoint, "safetensors": load_safetensors, "torch": load_torch}
MISFITS = {
    "renamed": ({"wieght": (2, 3), "bias": (2,)}, r"missing: weight \(2, 3\)\s+unexpected: wieght"),
    "shape": ({"weight": (2, 4), "bias": (2,)}, r"shape of weight: \(2, 4\) in the state, \(2, 3\) in the module"),
    "dtype": ({"weight": (2, 3), "bias": (2,)}, "dtype of bias: int64 in the state, float32 in the module"),
}


@pytest.mark.parametrize("form", LOADERS)
@pytest.mark.parametrize("misfit", MISFITS)
def test_a_state_that_does_not_fit_is_named_and_not_written(form: str, misfit: str, tmp_path: Path) -> None:
    shapes, message = MISFITS[misfit]
    state = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    if misfit == "dtype":
        state["bias"] = np.ones(2, np.int64)
    SAVERS[form](state, tmp_path / "m")
    model = nn.Linear(3, 2)
    before = [p.to_host() for p in model.parameters()]
    with pytest.raises(CheckpointError, match=message) as caught:
        LOADERS[form](tmp_path / "m", model)
    assert str(tmp_path / "m") in str(caught.value)
    for parameter, values in zip(model.parameters(), before):
        np.testing.assert_array_equal(parameter.to_host(), values)


@pytest.mark.parametrize("form", LOADERS)
def test_damaged_files_of_every_form_write_nothing(form: str, tmp_path: Path, rng) -> None:
    """Cut short or with a flipped bit, a file is refused or, where its form has no checksum, its arrays stay whole."""
    model, path = nn.Linear(30, 20), tmp_path / "m"
    SAVERS[form](nn.Linear(30, 20), path)
    whole = path.read_bytes()
    before = [p.to_host() for p in model.parameters()]
    refused = 0
    for at in rng.choice(len(whole), 40, replace=False):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        for content in (damaged, whole[:at]):
            path.write_bytes(content)
            try:
                LOADERS[form](path, model)
            except CheckpointError as error:
                assert str(path) in str(error)
                for parameter, values in zip(model.parameters(), before):
                    np.testing.assert_array_equal(parameter.to_host(), values)
                refused += 1
            else:
                assert content is damaged
                before = [p.to_host() for p in model.parameters()]
    # Safetensors has no checksum: what is flipped in its values is read.
    assert refused >= (40 if form == "safetensors" else 60)


READERS = {
    "load": io.load,
    "load_model": io.load_model,
    "load_checkpoint": io.load_checkpoint,
    "load_safetensors": io.load_safetensors,
    "load_torch": io.load_torch,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_missing_file_is_a_file_not_found_error_too(read, tmp_path):
    path = tmp_path / "missing"
    with pytest.raises(FileNotFoundError, match="cannot be read") as caught:
        read(path)
    assert isinstance(caught.value, CheckpointError)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(path))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.errno) == (type(caught.value), str(caught.value), errno.ENOENT)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_damaged_file_is_no_error_of_the_system(read, tmp_path):
    path = tmp_path / "damaged"
    path.write_bytes(b"damaged" * 100)
    with pytest.raises(CheckpointError) as caught:
        read(path)
    assert not isinstance(caught.value, OSError)


WRITERS = {
    "save": lambda path: io.save({"a": nn.Linear(2, 2).weight}, path),
    "save_model": lambda path: io.save_model(nn.Linear(2, 2), path),
    "save_checkpoint": lambda path: io.save_checkpoint({"a": nn.Linear(2, 2).weight}, path),
    "save_safetensors": lambda path: io.save_safetensors(nn.Linear(2, 2), path),
    "save_torch": lambda path: io.save_torch(nn.Linear(2, 2).state_dict(), path),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize(
    ("place", "kind", "number"),
    [
        ("missing/file", FileNotFoundError, errno.ENOENT),
        (".", IsADirectoryError, errno.EISDIR),
        ("file/below", NotADirectoryError, errno.ENOTDIR),
    ],
)
def test_a_file_that_cannot_be_written_is_an_os_error_too(write, place, kind, number, tmp_path):
    (tmp_path / "file").write_text("")
    path = tmp_path / place
    with pytest.raises(CheckpointError) as caught:
        write(path)
    assert isinstance(caught.value, kind)
    assert (caught.value.errno, caught.value.filename) == (number, str(path))


def test_a_full_disk_is_an_os_error_too(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=10))
    with pytest.raises(OSError, match="free on the disk") as caught:
        WRITERS["save_model"](tmp_path / "model")
    assert (type(caught.value).__name__, caught.value.errno) == ("CheckpointError", errno.ENOSPC)
