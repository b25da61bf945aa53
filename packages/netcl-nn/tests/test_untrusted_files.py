"""Model files that are damaged, hostile or of something else: each is refused by name, and no code of theirs runs."""

from __future__ import annotations

import copy
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from netcl import nn
from netcl.core import Tensor
from netcl.io import CheckpointError, load_model, save_model
from netcl.io.archive import entry_of, write_archive


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_model(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), tmp_path / "m.netcl")
    return tmp_path / "m.netcl"


def rewritten(path: Path, change) -> None:
    """Rewrites the file with ``change(meta, values)``, hashed again so that only the change is at fault."""
    with np.load(path) as arrays:
        values = {key: arrays[key] for key in arrays.files if key != "__netcl_meta__"}
        meta = json.loads(str(arrays["__netcl_meta__"]))
    change(meta, values)
    write_archive(path, meta, [entry_of(key, value) for key, value in values.items()])


def test_cut_short_at_any_place(saved: Path) -> None:
    whole = saved.read_bytes()
    for length in (*range(0, len(whole), 97), len(whole) - 1):
        saved.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"m\.netcl"):
            load_model(saved)


def test_any_flipped_bit_is_seen(saved: Path, rng) -> None:
    whole = bytearray(saved.read_bytes())
    expected = load_model(saved).state_dict()
    refused = 0
    for at in rng.choice(len(whole), 300, replace=False):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        saved.write_bytes(damaged)
        try:
            state = load_model(saved).state_dict()
        except CheckpointError:
            refused += 1
        else:  # a bit that says nothing: the archive's dates, attributes and repeated sizes
            for name, tensor in state.items():
                np.testing.assert_array_equal(tensor.to_host(), expected[name].to_host())
    assert refused > 200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda meta, values: values.update({"0.weight": np.zeros((3, 5), np.float32)}),
            r"shape of 0.weight: \(3, 5\)",
        ),
        (lambda meta, values: values.pop("0.bias"), r"missing: 0.bias \(3,\)"),
        (lambda meta, values: values.update({"extra": np.zeros(2)}), "unexpected: extra"),
        (lambda meta, values: meta.update(format="other"), "format 'other'"),
        (lambda meta, values: meta.update(version=4), "version 4"),
        (lambda meta, values: meta.update(config={"type": "Linear", "arguments": {"wrong": 1}}), "cannot be built"),
        (lambda meta, values: meta.update(config=None), "cannot be built"),
        (lambda meta, values: meta.update(config={"shared": 0}), "cannot be built"),
        (
            lambda meta, values: meta.update(
                config={"type": "Linear", "arguments": {"in_features": 10**9, "out_features": 10**9}}
            ),
            "are left of what Budget",
        ),
    ],
)
def test_a_file_that_lies(saved: Path, change, message: str) -> None:
    rewritten(saved, change)
    with pytest.raises(CheckpointError, match=message):
        load_model(saved)


STRANGE = (
    None,
    True,
    0,
    -1,
    3.5,
    1e308,
    10**30,
    "",
    "x",
    [],
    [[]],
    {},
    {"a": 1},
    {"module": 3},
    {"tuple": 3},
    {"shared": -1},
    {"*": 1},
)


def places(tree, path=()):
    yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def changed(tree, path, value):
    if not path:
        return value
    copied = copy.copy(tree)
    copied[path[0]] = changed(tree[path[0]], path[1:], value)
    return copied


def test_a_strange_config_raises_nothing_else(saved: Path, rng) -> None:
    """For any content of the JSON, the file loads or CheckpointError is raised."""
    with np.load(saved) as arrays:
        values = {key: arrays[key] for key in arrays.files if key != "__netcl_meta__"}
        meta = json.loads(str(arrays["__netcl_meta__"]))
    entries = [entry_of(key, value) for key, value in values.items()]
    refused = tried = 0
    for path in places(meta):
        for value in rng.choice(np.array(STRANGE, dtype=object), 6, replace=False):
            if path and path[0] in ("dtypes", "sha256") or not path:
                with open(saved, "wb") as file:
                    np.savez(file, __netcl_meta__=np.array(json.dumps(changed(meta, path, value))), **values)
            else:
                write_archive(saved, changed(meta, path, value), entries)
            tried += 1
            try:
                load_model(saved)
            except CheckpointError:
                refused += 1
    assert tried > 200
    assert refused > tried // 2


def add_member(path: Path, name: str, data: bytes, compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "a", compression) as archive:
        archive.writestr(name, data)


def npy(header: bytes, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


class Bomb:
    def __reduce__(self):
        return (print, ("code of a file has run",))


def test_hostile_members(saved: Path, capsys) -> None:
    import io
    import pickle

    whole = saved.read_bytes()
    pickled = io.BytesIO()
    np.lib.format.write_array(pickled, np.array([Bomb()], dtype=object), allow_pickle=True)
    cases = [
        ("x.npy", pickled.getvalue(), "pickled objects"),
        ("x.npy", pickle.dumps(Bomb()), "begin as an array"),
        ("x.txt", b"hello", "no array"),
        ("x.npy", npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }\n"), "not its size"),
        ("x.npy", npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n"), "begin as an array"),
        ("x.npy", npy(b"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }\n", b"\0" * 4), "columns"),
        ("x.npy", npy(b"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }\n", b"\0" * 8), "complex64"),
        ("x.npy", npy(b"(" * 500), "begin as an array"),
        ("x.npy", npy(b"__import__('os').getcwd()\n"), "begin as an array"),
        ("x.npy", npy(b" " * 60000), "begin as an array"),
    ]
    for name, data, message in cases:
        saved.write_bytes(whole)
        add_member(saved, name, data)
        with pytest.raises(CheckpointError, match=message):
            load_model(saved)
    saved.write_bytes(whole)
    add_member(
        saved,
        "x.npy",
        npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (9999999,), }\n", b"\0" * 9999999),
        zipfile.ZIP_DEFLATED,
    )
    with pytest.raises(CheckpointError, match="compressed"):
        load_model(saved)
    saved.write_bytes(whole)
    with pytest.warns(UserWarning, match="Duplicate"):
        add_member(saved, "0.weight.npy", b"")
    with pytest.raises(CheckpointError, match="twice"):
        load_model(saved)
    assert capsys.readouterr().out == ""


def test_what_is_no_file_of_netcl(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="No such file"):
        load_model(tmp_path / "absent.netcl")
    with pytest.raises(CheckpointError):
        load_model(tmp_path)
    with open(tmp_path / "plain.npz", "wb") as file:
        np.savez(file, a=np.zeros(3))
    with pytest.raises(CheckpointError, match="not one of netcl"):
        load_model(tmp_path / "plain.npz")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(CheckpointError, match="not a zip file") as caught:
        load_model(tmp_path / "text")
    assert caught.value.path == str(tmp_path / "text")
    assert caught.value.bytes == 5
    with open(tmp_path / "number.npz", "wb") as file:
        np.savez(file, __netcl_meta__=np.array(3))
    with pytest.raises(CheckpointError, match="no text"):
        load_model(tmp_path / "number.npz")
    deep = "[" * 100_000
    with open(tmp_path / "deep.npz", "wb") as file:
        np.savez(file, __netcl_meta__=np.array(deep))
    with pytest.raises(CheckpointError):
        load_model(tmp_path / "deep.npz")


def test_nothing_is_written_into_an_existing_model(saved: Path) -> None:
    model = load_model(saved)
    before = {name: t.to_host() for name, t in model.state_dict().items()}
    with pytest.raises(nn.StateError):
        model.load_state_dict({**before, "0.weight": np.zeros((1, 1))})
    for name, tensor in model.state_dict().items():
        np.testing.assert_array_equal(tensor.to_host(), before[name])
    assert isinstance(model[0].weight, Tensor)
