"""GGUF files: what is written is read again, models of each family, and files that are damaged in every region."""

from __future__ import annotations

import json
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl.core import Tensor, packed
from netcl.io import CheckpointError
from netcl.llm import Gguf, write_gguf
from netcl.llm.gguf import Entry
from netcl.llm.gguf_model import decoder_of_gguf, export_gguf
from netcl.llm.huggingface import decoder_of_folder

KEYS: dict[str, Any] = {
    "general.architecture": "llama",
    "a.bool": True,
    "a.int": -3,
    "a.size": 5,
    "a.float": 0.5,
    "a.double": np.float64(0.1),
    "a.long": 1 << 40,
    "a.byte": np.int8(-4),
    "a.texts": ["one", "två", ""],
    "a.numbers": np.arange(4, dtype=np.int16),
    "a.lists": [[1, 2], [3]],
}


def small(path: Path) -> Path:
    rng = np.random.default_rng(0)
    tensors = {
        "plain": rng.standard_normal((3, 5)).astype(np.float32),
        "half": rng.standard_normal(7).astype(np.float16),
        "brain": Entry("brain", (1, 2), "BF16", np.uint16([0x3FC0, 0xC000]).view(np.uint8)),
        "blocks": packed.quantize(rng.standard_normal((4, 64)).astype(np.float32), "Q8_0"),
    }
    write_gguf(path, KEYS, tensors)
    return path


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = Gguf(small(tmp_path / "a.gguf"))
    for name, value in KEYS.items():
        np.testing.assert_equal(file.metadata[name], value)
    assert file.tensors["plain"].shape == (3, 5)
    assert file.tensors["brain"].array().tolist() == [[1.5, -2.0]]
    assert file.tensors["half"].array().dtype == np.float16
    blocks = file.tensors["blocks"]
    assert (blocks.type, blocks.shape) == ("Q8_0", (4, 64))
    np.testing.assert_array_equal(blocks.packed().to_blocks().reshape(-1), blocks.data)
    write_gguf(tmp_path / "b.gguf", file.metadata, file.tensors)
    again = Gguf(tmp_path / "b.gguf")
    np.testing.assert_equal(again.metadata, file.metadata)
    for name, entry in again.tensors.items():
        assert entry.data.tobytes() == file.tensors[name].data.tobytes()


def test_parts_are_one_model(tmp_path: Path) -> None:
    for part in (1, 2):
        keys = {"split.no": np.uint16(part - 1), "split.count": np.uint16(2), "split.tensors.count": np.int32(2)}
        write_gguf(tmp_path / f"m-{part:05d}-of-00002.gguf", keys, {f"t{part}": np.float32([part])})
    file = Gguf(tmp_path / "m-00001-of-00002.gguf")
    assert [entry.array().item() for entry in file.tensors.values()] == [1, 2]
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(CheckpointError, match="m-00002-of-00002.gguf"):
        Gguf(tmp_path / "m-00001-of-00002.gguf")


def test_an_exported_model_has_the_same_logits(family: Any, tmp_path: Path) -> None:
    ids, logits = family.ids, family.logits
    decoder, _ = decoder_of_folder(family.folder)
    if family.name == "gemma3":
        with pytest.raises(ValueError, match="it has no key for local=.True, False, True."):
            export_gguf(decoder, tmp_path / "m.gguf")
        # As Gemma's own models are, but for the sizes.
        values = json.loads((family.folder / "config.json").read_text())
        kinds = ["sliding_attention"] * 3
        values.update(layer_types=kinds, query_pre_attn_scalar=8, final_logit_softcapping=None)
        (family.folder / "config.json").write_text(json.dumps(values))
        decoder, _ = decoder_of_folder(family.folder)
        with nc.no_grad():
            logits = decoder(Tensor.from_host(decoder.queue, ids)).numpy()
    export_gguf(decoder, tmp_path / "m.gguf")
    again = decoder_of_gguf(Gguf(tmp_path / "m.gguf"))
    bound = 2e-4 * float(np.abs(logits).max())
    with nc.no_grad():
        found = again(Tensor.from_host(again.queue, ids)).numpy()
    np.testing.assert_allclose(found, logits, rtol=0, atol=bound)


# ---------------------------------------------------------------------------------------------------- damaged files


def refused(data: bytes, path: Path) -> str:
    """Returns the message for a damaged file; it must come soon and take little memory."""
    path.write_bytes(data)
    tracemalloc.start()
    begin = time.perf_counter()
    try:
        with pytest.raises(CheckpointError) as caught:
            Gguf(path)
        assert time.perf_counter() - begin < 2
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    return str(caught.value)


def test_a_cut_file_is_refused_at_every_length(tmp_path: Path) -> None:
    whole = small(tmp_path / "a.gguf").read_bytes()
    for length in range(0, len(whole) - 16, 5):  # the last tensor ends 16 bytes before the padding does
        assert str(tmp_path / "cut.gguf") in refused(whole[:length], tmp_path / "cut.gguf")


def test_a_changed_number_is_refused_or_harmless(tmp_path: Path) -> None:
    whole = bytearray(small(tmp_path / "a.gguf").read_bytes())
    path, count = tmp_path / "changed.gguf", 0
    for at in range(4, 1000, 3):
        for value in (b"\xff" * 8, b"\x00" * 8, struct.pack("<Q", 1 << 40), b"\x09\x00\x00\x00"):
            data = bytearray(whole)
            data[at : at + len(value)] = value
            path.write_bytes(data)
            begin = time.perf_counter()
            try:
                Gguf(path)
            except CheckpointError:
                count += 1
            assert time.perf_counter() - begin < 2
    assert count > 300


def header(tensors: int = 0, keys: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def entry(name: str, lengths: tuple[int, ...], kind: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(lengths)}QIQ", len(lengths), *lengths, kind, offset)


NESTED = text("k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 3000 + struct.pack("<IQ", 0, 0)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (header(version=1), "version 2 or 3, got 1"),
        (header(version=3 << 24), "other order of bytes"),
        (header(tensors=1 << 60), "the header"),
        (header(keys=1 << 63), "the header"),
        (header(keys=1) + text("k") + struct.pack("<IQ", 8, 1 << 62), "a text of"),
        (header(keys=1) + text("k") + struct.pack("<IIQ", 9, 4, 1 << 62), "numbers"),
        (header(keys=1) + text("k") + struct.pack("<IIQ", 9, 8, 1 << 50), "values"),
        (header(keys=1) + text("k") + struct.pack("<I", 77), "type of value"),
        (header(keys=1) + NESTED, "levels"),
        (header(keys=2) + 2 * (text("k") + struct.pack("<IB", 0, 1)), "twice"),
        (header(keys=1) + text("general.alignment") + struct.pack("<II", 4, 0) + bytes(64), "alignment"),
        (header(1) + entry("t", (4, 4, 4, 4, 4), 0, 0) + bytes(64), "axes"),
        (header(1) + entry("t", (1 << 40, 1 << 40), 0, 0) + bytes(64), "shape"),
        (header(1) + entry("t", (4,), 0, 1 << 50) + bytes(64), "ends at byte"),
        (header(1) + entry("t", (4,), 0, 5) + bytes(64), "not aligned"),
        (header(1) + entry("t", (256,), 10, 0) + bytes(640), "its type Q2_K is not one of"),
        (header(1) + entry("t", (33,), 8, 0) + bytes(640), "whole number of Q8_0 blocks"),
        (header(2) + entry("t", (32,), 0, 0) + entry("u", (8,), 0, 32) + bytes(640), "inside of another"),
        (header(2) + 2 * entry("t", (8,), 0, 0) + bytes(640), "twice"),
    ],
)
def test_an_absurd_value_is_named(data: bytes, says: str, tmp_path: Path) -> None:
    assert says in refused(data + bytes(24), tmp_path / "absurd.gguf")
