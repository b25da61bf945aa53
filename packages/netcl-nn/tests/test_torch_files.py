"""PyTorch's files: files of PyTorch are read, files written here survive a round trip, and none of them runs code."""

from __future__ import annotations

import os
import pickle
import runpy
import shutil
import struct
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl import nn
from netcl.core import Tensor
from netcl.core.dtypes import OBJECTS
from netcl.io import Budget, CheckpointError, load_torch, save_torch

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("form", ["zip", "legacy"])
def test_a_file_of_pytorch(form: str) -> None:
    """Both files are of PyTorch 2.13, by torch.save."""
    found = load_torch(GOLDEN / f"{form}.pt")
    np.testing.assert_array_equal(found["model"]["0.weight"].to_host(), np.arange(6.0).reshape(2, 3) / 4)
    np.testing.assert_array_equal(found["model"]["1.running_var"].to_host(), [2, 2])
    assert found["model"]["1.num_batches_tracked"].dtype == "int64"
    assert found["tied"][0] is found["tied"][1]
    np.testing.assert_array_equal(found["turned"].to_host(), np.arange(12).reshape(3, 4).T)
    np.testing.assert_array_equal(found["part"].to_host(), [3, 5])
    np.testing.assert_array_equal(found["spread"].to_host(), [7, 7, 7])
    np.testing.assert_array_equal(found["halves"].to_host(), [1.5, -2])
    assert [found[name].dtype for name in ("halves", "half", "flags")] == ["bfloat16", "float16", "bool"]
    assert found["none"].shape == (0, 3)
    assert found["number"].item() == 5
    assert found["plain"] == {
        "epoch": 3,
        "best": 0.5,
        "betas": (0.9, 0.999),
        "big": 2**40,
        "text": "é",
        "bytes": b"\x00\xff",
        "nothing": None,
        "dtype": "float16",
        "size": (2, 3),
        "device": "cpu",
    }


@pytest.mark.parametrize("form", ["zip", "legacy"])
def test_a_whole_model_is_not_its_state(form: str) -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    with pytest.raises(CheckpointError, match=r"holds no state of a model but the keys model, tied"):
        load_torch(GOLDEN / f"{form}.pt", model)


def test_round(tmp_path: Path, normal) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    path = tmp_path / "m.pt"
    save_torch(model, path)
    other = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    load_torch(path, other)
    for name, tensor in model.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name].to_host(), tensor.to_host())
    shared = normal(3)
    value = {
        "a": [shared, shared, (1, None, True, -5, 2**70, 0.5, "é")],
        3: {"bfloat16": Tensor.full((2,), 1.5, "bfloat16"), "array": np.arange(3), "number": np.float32(0.25)},
        "empty": [{}, [], (), Tensor.zeros((0, 2))],
        "dtypes": [shared.dtype, OBJECTS["bfloat16"]],
    }
    save_torch(value, path)
    found = load_torch(path)
    assert found["a"][0] is found["a"][1]
    assert found["a"][2] == value["a"][2]
    assert found[3]["bfloat16"].dtype == "bfloat16"
    assert found[3]["number"] == 0.25
    np.testing.assert_array_equal(found[3]["array"].to_host(), np.arange(3))
    assert found["empty"][:3] == [{}, [], ()]
    assert found["empty"][3].shape == (0, 2)
    assert [one is OBJECTS[name] for one, name in zip(found["dtypes"], ("float32", "bfloat16"))] == [True, True]


def test_storages_begin_where_they_can_be_mapped(tmp_path: Path) -> None:
    save_torch({"a": np.arange(5.0), "b": np.arange(3)}, tmp_path / "m.pt")
    whole = (tmp_path / "m.pt").read_bytes()
    assert whole.index(np.arange(5.0).tobytes()) % 64 == 0
    assert whole.index(np.arange(3).tobytes()) % 64 == 0


def test_what_cannot_be_saved_is_named(tmp_path: Path) -> None:
    nested: Any = []
    for _ in range(300):
        nested = [nested]
    for value, message in (
        ({"a": {"b": object()}}, r"state\.a\.b: a object cannot be saved"),
        ({(1, 2): 3}, "texts and whole numbers as keys of a state, got tuple"),
        ({"a": np.zeros(2, np.uint64)}, "no storage of uint64"),
        (nested, "levels deep"),
    ):
        with pytest.raises(CheckpointError, match=message):
            save_torch(value, tmp_path / "m.pt")
    assert list(tmp_path.iterdir()) == []


def test_one_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    layer = nn.Linear(3, 2)
    before = layer.weight.to_host()
    for state, message in (
        ({"weight": np.zeros((2, 4)), "bias": np.zeros(2)}, r"shape of weight: \(2, 4\) in the state, \(2, 3\)"),
        ({"weight": np.zeros((2, 3))}, r"missing: bias \(2,\)"),
        ({"weight": np.zeros((2, 3)), "bais": np.zeros(2)}, "unexpected: bais"),
        ({"weight": np.zeros((2, 3), np.int64), "bias": np.zeros(2)}, "dtype of weight: int64"),
    ):
        save_torch(state, path)
        with pytest.raises(CheckpointError, match=message) as caught:
            load_torch(path, layer)
        assert str(path) in str(caught.value)
        np.testing.assert_array_equal(layer.weight.to_host(), before)


# -- hostile files -------------------------------------------------------------------------------------------------


def zipped(path: Path, pickled: bytes, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", pickled)
        for name, data in members.items():
            archive.writestr(f"x/data/{name}", data)
    return path


class Call:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> Any:
        return self.function, self.arguments


def tensor(storage: bytes = b"X\x01\x00\x00\x000", offset: int = 0, shape: int = 1, kind: bytes = b"Float") -> bytes:
    """Returns the instructions of one tensor of one axis over a storage that says to have a million elements."""
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\n"
        + (kind + b"Storage\n" + storage + b"X\x03\x00\x00\x00cpuJ\x40\x42\x0f\x00tQJ")
        + (struct.pack("<i", offset) + b"J" + struct.pack("<i", shape) + b"\x85K\x01\x85\x89}tR")
    )


def test_no_code_runs(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    calls = [
        Call(os.mkdir, str(witness)),
        Call(eval, f"__import__('os').mkdir({str(witness)!r})"),
        Call(exec, f"import os; os.mkdir({str(witness)!r})"),
        Call(runpy.run_module, "this"),
    ]
    for call in calls:
        for protocol in (0, 1, 2, 3, 4, 5):
            for value in (call, {"weight": call}, [call]):
                path = zipped(tmp_path / "m.pt", pickle.dumps(value, protocol))
                with pytest.raises(CheckpointError, match="no part of a state"):
                    load_torch(path)
                path.write_bytes(pickle.dumps(value, protocol))
                with pytest.raises(CheckpointError):
                    load_torch(path)
    assert not witness.exists()
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("__torch__.torch.nn.modules.linear Linear", r"a program of TorchScript.*save the model's state_dict\(\)"),
        (
            "torch.nn.modules.linear Linear",
            r"refers to torch\.nn\.modules\.linear\.Linear, .*state_dict\(\) of",
        ),
        ("argparse Namespace", r"refers to argparse\.Namespace, .*plain values of other objects"),
    ],
    ids=["script", "module", "object"],
)
def test_a_file_of_objects_says_what_to_save(name, text, tmp_path):
    module, _, short = name.partition(" ")
    content = b"\x80\x02c" + module.encode() + b"\n" + short.encode() + b"\n)\x81."  # protocol 2: name, (), new
    with pytest.raises(CheckpointError, match=text):
        load_torch(zipped(tmp_path / "m.pt", content))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (b"\x80\x02" + tensor(shape=10**6) + b".", "reaches beyond its storage of 40 bytes"),
        (b"\x80\x02" + tensor(offset=9, shape=2) + b".", "reaches beyond"),
        (b"\x80\x02" + tensor(offset=-1) + b".", "no proper shape"),
        (b"\x80\x02" + tensor(storage=b"X\x01\x00\x00\x001") + b".", "lacks x/data/1"),
        (b"\x80\x02" + tensor(kind=b"ComplexFloat") + b".", "the dtype complex64, which netcl lacks"),
        (b"\x80\x02" + tensor(kind=b"Odd") + b".", "refers to torch.OddStorage"),
        (b"\x80\x02X\x06\x00\x00\x00moduleQ.", "module or another object"),
        (b"\x80\x02cos\nsystem\n.", r"refers to os\.system"),
        (b"\x80\x02ccollections\nOrderedDict\n(N}tR.", "is not read"),
        (b"\x80\x02]K\x01K\x02s.", "no container where one is filled"),
        (b"\x80\x02})\x85K\x02s.", "expected texts and numbers as keys, got tuple"),
        (b"\x80\x02}(K\x01u.", "a key has no value"),
        (b"\x80\x02K\x01e.", "a container has no beginning"),
        (b"\x80\x02K\x01)R.", "calls what is no function"),
        (b"\x80\x02(K\x01.", "does not end with one value"),
        (b"\x80\x02h\x07.", "has not made"),
        (b"\x80\x02\x82\x01.", "EXT1 is not allowed"),
        (b"\x80\x02", "is not read"),
        (b"", "is not read"),
        (b"\x80\x02X\xff\xff\xff\xffabc.", "is not read"),
        (b"\x80\x02N0N.", "POP is not allowed"),
    ],
)
def test_programs_that_are_refused(program: bytes, message: str, tmp_path: Path) -> None:
    path = zipped(tmp_path / "m.pt", program, **{"0": bytes(40)})
    with pytest.raises(CheckpointError, match=message) as caught:
        load_torch(path)
    assert str(path) in str(caught.value)


def test_bombs_are_defused_in_time(tmp_path: Path) -> None:
    """Programs that would take for ever, or all memory, by hashing, printing, copying or listing."""
    towers = b"\x80\x02)" + b"q\x00h\x00\x86" * 60  # a pair of a pair of ...
    lists = b"\x80\x02(lq\x00" + b"".join(b"(h%ch%cl" % (at, at) + b"q%c" % (at + 1) for at in range(60))
    text = b"\x80\x02X" + struct.pack("<I", 1 << 20) + b"a" * (1 << 20) + b"q\x00"
    encode = b"c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R"
    programs = [
        b"\x80\x02}" + towers[2:] + b"K\x01s.",
        b"\x80\x02}" + lists[2:] + b"ctorch\ndevice\nh\x3c\x85R.",
        text + b"](" + encode * 3000 + b"e.",
        b"\x80\x02](" + b"N" * 200_000 + b"e.",
        b"\x80\x02r\xff\xff\xff\x7f.",
        b"\x80\x02](" + tensor(shape=10) * 2000 + b"e.",
    ]
    budget = Budget(items=100_000)
    begin = time.process_time()
    for program in programs[:5]:
        with pytest.raises(CheckpointError):
            load_torch(zipped(tmp_path / "m.pt", program, **{"0": bytes(40)}), budget=budget)
    assert len(load_torch(zipped(tmp_path / "m.pt", programs[5], **{"0": bytes(40)}))) == 2000
    assert time.process_time() - begin < 60


def test_a_spread_tensor_cannot_be_larger_than_a_file(tmp_path: Path) -> None:
    program = tensor(shape=2**31 - 1).replace(b"K\x01\x85\x89", b"K\x00\x85\x89")
    with pytest.raises(CheckpointError, match="are left of what Budget"):
        load_torch(zipped(tmp_path / "m.pt", b"\x80\x02" + program + b".", **{"0": bytes(40)}))


@pytest.mark.parametrize("form", ["zip", "legacy"])
def test_mutated_files_are_read_or_refused(form: str, tmp_path: Path, rng) -> None:
    mutate(form, tmp_path, rng, 150)


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("form", ["zip", "legacy"])
def test_many_mutated_files(form: str, tmp_path: Path, rng) -> None:
    mutate(form, tmp_path, rng, 4_000)


def test_a_compressed_member_that_is_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/data.pkl", b"." * 1000)
    damaged = bytearray(path.read_bytes())
    start = 30 + len("m/data.pkl")
    damaged[start : start + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(damaged)
    with pytest.raises(CheckpointError, match="compressed or encrypted"):
        load_torch(path)


def mutate(form: str, folder: Path, rng: np.random.Generator, times: int) -> None:
    whole = (GOLDEN / f"{form}.pt").read_bytes()
    path = folder / "m.pt"
    refused = 0
    for _ in range(times):
        damaged = bytearray(whole)
        for _ in range(int(rng.integers(1, 6))):
            at, kind = int(rng.integers(len(damaged))), int(rng.integers(4))
            if kind == 0:
                damaged[at] = int(rng.integers(256))
            elif kind == 1:
                del damaged[at : at + int(rng.integers(1, 9))]
            elif kind == 2:
                damaged[at:at] = rng.bytes(int(rng.integers(1, 9)))
            else:
                damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        begin = time.process_time()  # not of the clock: a busy machine may let this process wait
        try:
            load_torch(path, queue="cpu")
        except CheckpointError:
            refused += 1
        assert time.process_time() - begin < 20
    assert refused > times // 2


def test_cut_short_at_any_place(tmp_path: Path) -> None:
    for form in ("zip", "legacy"):
        whole = (GOLDEN / f"{form}.pt").read_bytes()
        for length in (*range(0, len(whole), 173), len(whole) - 1):
            (tmp_path / "m.pt").write_bytes(whole[:length])
            with pytest.raises(CheckpointError, match=r"m\.pt"):
                load_torch(tmp_path / "m.pt")


def test_a_flipped_bit_in_a_storage_is_seen(tmp_path: Path) -> None:
    whole = bytearray((GOLDEN / "zip.pt").read_bytes())
    at = whole.index(struct.pack("<6f", *(np.arange(6) / 4)))
    whole[at + 5] ^= 4
    (tmp_path / "m.pt").write_bytes(whole)
    with pytest.raises(CheckpointError, match="CRC"):
        load_torch(tmp_path / "m.pt")


def test_members_that_are_compressed_or_missing(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(GOLDEN / "zip.pt") as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with pytest.raises(CheckpointError, match="compressed"):
        load_torch(path)
    with zipfile.ZipFile(path, "w") as new:
        new.writestr("readme", "hello")
    with pytest.raises(CheckpointError, match=r"no data\.pkl"):
        load_torch(path)
    with pytest.raises(CheckpointError, match="No such file"):
        load_torch(tmp_path / "absent.pt")
    shutil.copy(__file__, path)
    with pytest.raises(CheckpointError, match="not read as a file of PyTorch"):
        load_torch(path)


def test_a_model_takes_a_part_and_names_are_returned(tmp_path: Path) -> None:
    path = tmp_path / "part.pt"
    save_torch({"weight": nn.Linear(2, 3).weight, "extra": Tensor.zeros((1,))}, path)
    model = nn.Linear(2, 3)
    with pytest.raises(CheckpointError, match="extra"):
        load_torch(path, model)
    report = load_torch(path, model, strict=False)
    assert report.missing_keys == ["bias"]
    assert report.unexpected_keys == ["extra"]
    assert load_torch(path)["weight"].to_host().tolist() == model.weight.to_host().tolist()
