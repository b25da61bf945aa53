"""Saving: files that may be replaced, messages, removed temporary files, several savers of one file."""

from __future__ import annotations

import errno
import importlib.util
import mmap
import os
import random
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl import nn
from netcl.io import (
    Budget,
    CheckpointError,
    export_onnx,
    latest_checkpoint,
    load_checkpoint,
    load_model,
    load_params,
    load_safetensors,
    load_torch,
    save,
    save_checkpoint,
    save_model,
    save_params,
    save_safetensors,
    save_torch,
    verify,
)
from netcl.io.archive import Archive, entry_of, write_archive
from netcl.io.atomic import remove_leftovers
from netcl.nn.registry import to_config
from netcl.ops import get_rng_state

POSIX = pytest.mark.skipif(os.name == "nt", reason="needs devices, locks and signals of POSIX")
Saver = Callable[[nn.Module, Any], None]
SAVERS: dict[str, Saver] = {
    "model": save_model,
    "checkpoint": save_checkpoint,
    "params": lambda model, path: save_params(model.parameters(), path),
    "safetensors": save_safetensors,
    "torch": save_torch,
    "save": lambda model, path: save(model.state_dict(), path),
}
if importlib.util.find_spec("onnx") is not None:
    SAVERS["onnx"] = lambda model, path: export_onnx(model, np.zeros((1, 3), np.float32), path)


def fill(model: nn.Module, value: float) -> nn.Module:
    for parameter in model.parameters():
        parameter.write(np.full(parameter.shape, value, np.float32))
    return model


def weight(form: str, path: Path) -> np.ndarray[Any, Any]:
    """Returns the weights of a file by its loader."""
    model = nn.Linear(3, 2)
    if form == "model":
        return load_model(path).weight.to_host()
    if form == "params":
        return load_params(None, None, path)[0].to_host()
    loaders = {"checkpoint": load_checkpoint, "safetensors": load_safetensors, "torch": load_torch, "save": load_torch}
    loaders[form](path, model)
    return model.weight.to_host()


# -- targets


@POSIX
@pytest.mark.parametrize("form", SAVERS)
def test_only_regular_files_are_replaced(form: str, tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    pipe, plug, link = tmp_path / "pipe", tmp_path / "socket", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(plug))
        for target, kind in ((pipe, "pipe"), (link, "pipe"), (plug, "socket")):
            before = os.stat(target)
            with pytest.raises(CheckpointError, match=f"is a {kind}"):
                SAVERS[form](model, target)
            assert (os.stat(target).st_ino, os.stat(target).st_mode) == (before.st_ino, before.st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe", "socket"]


@POSIX
@pytest.mark.skipif(os.name == "nt" or os.getuid() != 0, reason="needs root, which may make devices")
def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    # A device of its own: a test that fails must not take /dev/null from the machine.
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this container makes no devices")
    with pytest.raises(CheckpointError, match="character device") as caught:
        save_model(nn.Linear(2, 2), device)
    assert isinstance(caught.value, OSError)
    assert stat.S_ISCHR(os.stat(device).st_mode)


@POSIX
def test_the_name_of_an_open_pipe_is_refused(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(CheckpointError, match="pipe"):
            save_model(nn.Linear(2, 2), f"/dev/fd/{writing}")
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("name", ["語" * 80 + ".netcl", "a" * 250, "a.b c'[x]*.netcl"], ids=["wide", "long", "odd"])
def test_long_and_odd_names(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    for value in (1.0, 2.0):
        save_model(fill(nn.Linear(3, 2), value), path)
    assert weight("model", path).tolist() == [[2.0] * 3] * 2
    assert [found.name for found in tmp_path.iterdir()] == [name]


def test_a_path_that_no_system_takes() -> None:
    with pytest.raises(CheckpointError, match="null"):
        save_model(nn.Linear(2, 2), "a\0b")


# -- messages


@POSIX
@pytest.mark.parametrize("form", SAVERS)
def test_after_a_failed_sync_of_the_folder_the_message_is_true(form: str, tmp_path: Path, monkeypatch: Any) -> None:
    path, real = tmp_path / "m", os.fsync
    SAVERS[form](fill(nn.Linear(3, 2), 1.0), path)
    old = path.read_bytes()

    def sync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        real(handle)

    monkeypatch.setattr(os, "fsync", sync)
    with pytest.raises(CheckpointError, match="was saved and is whole, but its folder.*Input/output error") as caught:
        SAVERS[form](fill(nn.Linear(3, 2), 2.0), path)
    assert "untouched" not in str(caught.value)
    assert caught.value.replaced
    assert path.read_bytes() != old
    assert [found.name for found in tmp_path.iterdir()] == ["m"]


@POSIX
def test_a_rename_that_fails_after_it_happened(tmp_path: Path, monkeypatch: Any) -> None:
    path, real = tmp_path / "m", os.replace
    save_model(nn.Linear(3, 2), path)

    def replace(source: Any, target: Any) -> None:
        real(source, target)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(CheckpointError) as caught:
        save_model(fill(nn.Linear(3, 2), 2.0), path)
    assert caught.value.replaced
    assert weight("model", path)[0, 0] == 2.0


@POSIX
def test_a_folder_that_may_not_be_read_cannot_be_synced() -> None:
    code = (
        "import os, sys\n"
        "from netcl import nn\n"
        "from netcl.io import save_model, load_model\n"
        "model = nn.Linear(3, 3)\n"
        "model.weight.to_host()\n"
        "if os.getuid() == 0:\n"
        "    os.setgroups([])\n"
        "    os.setgid(65534)\n"
        "    os.setuid(65534)\n"
        "save_model(model, sys.argv[1])\n"
        "print(type(load_model(sys.argv[1])).__name__)\n"
    )
    # Not in tmp_path: each pytest that starts closes the folder of this user's pytests to others.
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "drop"
        folder.mkdir()
        folder.chmod(0o333)
        for parent in folder.parents:
            if not parent.stat().st_mode & 0o001:
                parent.chmod(0o711)
        done = subprocess.run(
            [sys.executable, "-c", code, str(folder / "m")], capture_output=True, text=True, timeout=100, check=False
        )
        folder.chmod(0o755)
    assert done.stdout == "Linear\n", done.stderr


# -- temporary files


def leftover(folder: Path, name: str, digits: str = "0123456789ab") -> Path:
    path = folder / f".{name}.{digits}.tmp"
    path.write_bytes(b"half of a file")
    return path


@pytest.mark.parametrize("form", SAVERS)
def test_the_next_save_removes_what_a_killed_one_left(form: str, tmp_path: Path) -> None:
    own = leftover(tmp_path, "m")
    others = [leftover(tmp_path, "n"), leftover(tmp_path, "m.x"), tmp_path / ".m.notes.tmp"]
    others[-1].write_text("mine")
    SAVERS[form](nn.Linear(3, 2), tmp_path / "m")
    assert not own.exists()
    assert all(path.exists() for path in others)


@POSIX
def test_the_temporary_of_a_living_saver_stays(tmp_path: Path) -> None:
    import fcntl

    path = leftover(tmp_path, "m")
    with open(path, "r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        save_model(nn.Linear(3, 2), tmp_path / "m")
        assert path.exists()
    save_model(nn.Linear(3, 2), tmp_path / "m")
    assert not path.exists()


@POSIX
def test_pipes_and_links_of_such_names_stay(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    os.mkfifo(tmp_path / ".m.000000000000.tmp")
    (tmp_path / ".m.000000000001.tmp").symlink_to(outside)
    save_model(nn.Linear(3, 2), tmp_path / "m")
    assert outside.read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 4


WRITER = """
import os, sys, time
from netcl import io, nn

model = nn.Linear(3, 2)
def fsync(handle):
    print("writing", flush=True)
    time.sleep(60)
os.fsync = fsync
io.save_model(model, sys.argv[1])
"""


@POSIX
def test_a_stopped_saver_of_another_process_is_alive_until_it_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "m"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGSTOP)
        (temporary,) = tmp_path.glob(".m.*.tmp")
        save_model(nn.Linear(3, 2), path)
        assert temporary.exists()
    finally:
        process.kill()
        process.communicate(timeout=60)
    save_model(nn.Linear(3, 2), path)
    assert [found.name for found in tmp_path.iterdir()] == ["m"]


def test_a_folder_without_leftovers_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("mine")
    remove_leftovers(tmp_path, "m")
    remove_leftovers(tmp_path / "absent", "m")
    assert [found.name for found in tmp_path.iterdir()] == ["m"]


# -- several savers and readers of one file


@pytest.mark.parametrize("form", [form for form in SAVERS if form != "onnx"])
def test_savers_of_one_file_in_threads(form: str, tmp_path: Path) -> None:
    path, models = tmp_path / "m", [fill(nn.Linear(3, 2), float(at)) for at in range(3)]
    raised: list[BaseException] = []

    def work(model: nn.Module) -> None:
        try:
            for _ in range(8):
                SAVERS[form](model, path)
        except BaseException as error:  # noqa: BLE001 - shown below
            raised.append(error)

    threads = [threading.Thread(target=work, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert raised == []
    found = weight(form, path)
    assert found.tolist() == [[found[0, 0]] * 3] * 2
    assert [name.name for name in tmp_path.iterdir()] == ["m"]


SAVING = """
import sys
import numpy as np
from netcl import io, nn
model = nn.Linear(3, 2)
for parameter in model.parameters():
    parameter.write(np.full(parameter.shape, float(sys.argv[2]), np.float32))
for _ in range(30):
    io.save_model(model, sys.argv[1])
"""


def test_savers_of_one_file_in_processes(tmp_path: Path) -> None:
    path, env = tmp_path / "m", {**os.environ, "NETCL_DEVICE": "cpu"}
    command = [sys.executable, "-c", SAVING, str(path)]
    running = [subprocess.Popen([*command, at], stderr=subprocess.PIPE, text=True, env=env) for at in ("1", "2")]
    seen = set()
    while any(process.poll() is None for process in running):
        if path.exists():
            found = weight("model", path)
            assert found.tolist() == [[found[0, 0]] * 3] * 2
            seen.add(float(found[0, 0]))
        time.sleep(0.01)
    assert [process.communicate()[1] for process in running] == ["", ""]
    assert seen <= {1.0, 2.0}
    assert [name.name for name in tmp_path.iterdir()] == ["m"]


@POSIX
@pytest.mark.parametrize("form", [form for form in SAVERS if form != "onnx"])
def test_a_mapped_file_is_replaced_and_its_reader_keeps_the_old_one(form: str, tmp_path: Path) -> None:
    path = tmp_path / "m"
    SAVERS[form](fill(nn.Linear(3, 2), 1.0), path)
    old = path.read_bytes()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        SAVERS[form](fill(nn.Linear(3, 2), 2.0), path)
        assert bytes(mapped) == old
    assert weight(form, path).tolist() == [[2.0] * 3] * 2


@POSIX
@pytest.mark.parametrize("form", ["safetensors", "torch", "checkpoint"])
def test_arrays_that_are_mapped_from_the_target_itself(form: str, tmp_path: Path) -> None:
    path = tmp_path / "m"
    np.arange(6, dtype=np.float32).tofile(path)
    mapped = np.memmap(path, np.float32, "r", shape=(2, 3))
    state = {"weight": mapped, "bias": np.zeros(2, np.float32)}
    {"safetensors": save_safetensors, "torch": save_torch, "checkpoint": save_checkpoint}[form](state, path)
    assert weight(form, path).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert mapped.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


# -- folders of checkpoints, and states of generators


class Plain:
    def __init__(self, state: Any) -> None:
        self.state = state

    def state_dict(self) -> Any:
        return self.state


@pytest.mark.parametrize("epoch", ["x", None, [1], {"a": 1}, 1.5, float("nan"), -1, True])
def test_a_hostile_file_does_not_hide_the_checkpoints(epoch: Any, tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    save_checkpoint(model, tmp_path / "good.netcl", epoch=3)
    save_checkpoint(model, tmp_path / "bad.netcl", epoch=epoch)
    save_model(model, tmp_path / "best.netcl")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.warns(UserWarning, match=r"latest_checkpoint skips a file: .*bad\.netcl: its epoch"):
        assert latest_checkpoint(tmp_path) == tmp_path / "good.netcl"
    (tmp_path / "bad.netcl").write_bytes((tmp_path / "good.netcl").read_bytes()[:400])
    with pytest.warns(UserWarning, match=r"latest_checkpoint skips a file: .*bad\.netcl: "):
        assert latest_checkpoint(tmp_path) == tmp_path / "good.netcl"


def test_the_budget_of_a_folder_is_an_argument(tmp_path: Path) -> None:
    """The directory of an archive of many arrays takes more memory than they do."""
    save_checkpoint(nn.Linear(3, 2), tmp_path / "m.netcl", epoch=3)
    members = tmp_path / "m.netcl"
    with zipfile.ZipFile(members, "a") as archive:
        for number in range(2000):
            archive.writestr(str(number), b"")
    with pytest.warns(UserWarning, match=r"latest_checkpoint skips a file: .*Budget\(bytes=0\)"):
        assert latest_checkpoint(tmp_path, budget=Budget(bytes=0)) is None


SPOILED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "empty": lambda state: state.clear(),
    "seed": lambda state: state["netcl"].pop("seed"),
    "offset": lambda state: state["netcl"].update(offset="far"),
    "bit generator": lambda state: state["numpy"].update(bit_generator="PCG64"),
    "position": lambda state: state["numpy"]["state"].update(pos=10**6),
    "key": lambda state: state["numpy"]["state"].update(key=np.zeros(3, np.uint32)),
    "gauss": lambda state: state["python"].update(gauss="x"),
    "words": lambda state: state["python"].update(state=np.zeros(3, np.int64)),
    "index": lambda state: state["python"]["state"].__setitem__(-1, 10**6),
    "version": lambda state: state["python"].update(version=9),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_state_of_generators_that_is_malformed_changes_nothing(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    """A position beyond NumPy's state would be read from memory that is not its own."""
    model, path = fill(nn.Linear(3, 2), 1.0), tmp_path / "c"
    version, words, gauss = random.getstate()
    state = {
        "netcl": get_rng_state(),
        "numpy": np.random.get_state(legacy=False),
        "python": {"version": version, "state": np.array(words, np.int64), "gauss": gauss},
    }
    SPOILED[name](state)
    # Written as the tree is: a hostile program computes the hash, too.
    monkeypatch.setattr("netcl.io.checkpoint._rng_state", lambda: state)
    save_checkpoint(fill(nn.Linear(3, 2), 2.0), path, scheduler=Plain({"count": 1}))
    monkeypatch.undo()
    before = get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    with pytest.raises(CheckpointError, match="does not fit: the state of the random generators is malformed"):
        load_checkpoint(path, model)
    assert model.weight.to_host().tolist() == [[1.0] * 3] * 2
    assert (get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()) == before
    assert verify(path)["type"] == "checkpoint"


def test_validate_sees_the_rest_before_anything_is_written(tmp_path: Path) -> None:
    model, path = fill(nn.Linear(3, 2), 1.0), tmp_path / "c"
    save_checkpoint(fill(nn.Linear(3, 2), 2.0), path, epoch=4, extra={"note": "x"})
    seen = []

    def refuse(rest: dict[str, Any]) -> None:
        seen.append((rest["epoch"], rest["extra"], model.weight.to_host()[0, 0]))
        raise ValueError("another note")

    with pytest.raises(CheckpointError, match="does not fit: another note"):
        load_checkpoint(path, model, validate=refuse)
    assert seen == [(4, {"note": "x"}, 1.0)]
    assert model.weight.to_host()[0, 0] == 1.0


def test_an_error_of_the_disk_in_the_second_reading_says_what_was_written(tmp_path: Path, monkeypatch: Any) -> None:
    model, path = fill(nn.Linear(3, 2), 1.0), tmp_path / "c"
    save_checkpoint(fill(nn.Linear(3, 2), 2.0), path)
    real, reads = Archive.read, []

    def read(self: Archive, key: str) -> Any:
        reads.append(key)
        if key == "model/bias":
            raise self.refuse("is damaged (Input/output error)")
        return real(self, key)

    monkeypatch.setattr(Archive, "read", read)
    with pytest.raises(CheckpointError, match="1 of 2 arrays of the model are from the file, from 'bias' on"):
        load_checkpoint(path, model, rng=False)
    assert [key for key in reads if key.startswith("model/")] == ["model/weight", "model/bias"]
    assert model.weight.to_host()[0, 0] == 2.0
    assert model.bias.to_host()[0] == 1.0


def test_what_is_known_about_a_model_is_kept(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    save_model(model, tmp_path / "plain.netcl")
    assert load_model(tmp_path / "plain.netcl").about is None
    model.about = {"classes": ["cat", "dog"], "scale": {"mean": [0.5]}}
    save_model(model, tmp_path / "known.netcl")
    assert load_model(tmp_path / "known.netcl").about == model.about
    meta = {"format": "netcl.single-file", "version": 3, "config": to_config(model), "about": 3}
    entries = [entry_of(name, tensor) for name, tensor in model.state_dict(keep_vars=True).items()]
    write_archive(tmp_path / "wrong.netcl", meta, entries)
    with pytest.raises(CheckpointError, match="has no dict under 'about' but '3'"):
        load_model(tmp_path / "wrong.netcl")
    model.about = {"classes": {1, 2}}
    with pytest.raises(CheckpointError, match="cannot be described as JSON"):
        save_model(model, tmp_path / "set.netcl")
