"""Crafted files that ask for far more than they hold: each must end within 2 s and 256 MB, refused or read."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import random
import struct
import sys
import zipfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from registry import Run, attack

from formats.judge import OVERTIME, Judge
from formats.onnx_files import library
from formats.torch_files import archive
from netcl import nn
from netcl.core.errors import UnsupportedError
from netcl.data import CSVDataset, NpyDataset
from netcl.data.readers import read_idx
from netcl.io import (
    CheckpointError,
    import_onnx,
    load_checkpoint,
    load_model,
    load_safetensors,
    load_torch,
    save_model,
    save_safetensors,
    save_torch,
)
from netcl.io.archive import write_archive

ENVIRONMENT = {"NETCL_DEVICE": "cpu"}


def repeat(run: Run, judge: Judge, bombs: dict[str, Callable[[random.Random], bytes]]) -> None:
    """Judges every bomb once, then bombs at random until the deadline. A slice of less than a second has some only."""
    names = sorted(bombs)
    for rng in run.cases(least=len(names) if run.seconds >= 1 else 1):
        name = names[run.case] if run.case < len(names) else rng.choice(names)
        judge.detail = ""
        data = bombs[name](rng)
        found = judge.symptom(data)
        found = judge.symptom(data) if found == OVERTIME else found
        run.count(judge.outcome)
        if found:
            run.fail(f"{name}: {found}", reproducer=judge.detail, data=data[: 1 << 20], suffix=judge.suffix)
        elif run.case < len(names) and judge.outcome == "read" and "good" not in name:
            run.count(f"read {name}")


def huge(rng: random.Random) -> int:
    return rng.choice((10**6, 10**9, 2**31 - 1, 10**12, 2**62))


# -- .netcl --------------------------------------------------------------------------------------------------------


def described(folder: Path, config: Any, **more: Any) -> bytes:
    """Returns a model file with this description and no arrays."""
    path = folder / "bomb.netcl"
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 20_000))  # to write layers that are nested more deeply than a reader may go
    try:
        write_archive(path, {"format": "netcl.single-file", "version": 3, "config": config, **more}, [])
    finally:
        sys.setrecursionlimit(limit)
    return path.read_bytes()


def layer(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": name, "arguments": arguments}


@attack("formats.bombs.netcl", environment=ENVIRONMENT)
def models(run: Run) -> None:
    """Few bytes that describe many layers, many elements, deep values, or a long directory."""
    path = run.folder / "good.netcl"
    save_model(nn.Linear(2, 2), path)
    judge = Judge(run, ".netcl", load_model, path.read_bytes(), (CheckpointError,))
    here = run.folder

    def nested(depth: int) -> Any:
        config: Any = layer("ReLU")
        for _ in range(depth):
            config = layer("Sequential", **{"*": [{"module": config}]})
        return config

    inner = {"module": layer("ReLU")}
    encoder = {"module": layer("TransformerEncoderLayer", d_model=8, nhead=2, dim_feedforward=8)}
    wide = [{"module": layer("Linear", in_features=2000, out_features=2000)}]
    graph = base64.b64encode(b"\x3a\x00").decode()
    repeat(
        run,
        judge,
        {
            "GPT of many layers": lambda rng: described(
                here, layer("GPT", vocab_size=8, block_size=8, n_layer=huge(rng), n_head=1, n_embd=8)
            ),
            "TransformerEncoder of ReLU": lambda rng: described(
                here, layer("TransformerEncoder", encoder_layer=inner, num_layers=huge(rng))
            ),
            "TransformerEncoder of layers": lambda rng: described(
                here, layer("TransformerEncoder", encoder_layer=encoder, num_layers=huge(rng))
            ),
            "LSTM of many layers": lambda rng: described(
                here, layer("LSTM", input_size=2, hidden_size=2, num_layers=huge(rng))
            ),
            "Linear of many elements": lambda rng: described(
                here, layer("Linear", in_features=huge(rng), out_features=rng.choice((1, 10**9)))
            ),
            "many linear layers": lambda rng: described(here, layer("Sequential", **{"*": wide * 2000})),
            "nested layers": lambda rng: described(here, nested(rng.choice((100, 300, 900)))),
            "a weight with thousands of dots": lambda rng: described(
                here,
                layer("ONNXModel", graph=graph, weights=[["a." * huge(rng).bit_length() * 300, "float32", [1], True]]),
            ),
            "many weights of one name": lambda rng: described(
                here, layer("ONNXModel", graph=graph, weights=[["a", "float32", [1], True]] * 20000)
            ),
            "a graph that is no base64": lambda rng: described(here, layer("ONNXModel", graph="~~~~", weights=[])),
            "a directory of many members": lambda rng: many_members(rng.choice((1000, 400_000))),
            "a description of many values": lambda rng: described(
                here, layer("ReLU"), more=[rng.choice(([], {}, 1, "a"))] * rng.choice((10**5, 2 * 10**6))
            ),
            "no archive but a directory's end": lambda rng: b"PK\5\6" + b"\0" * 8 + b"\xff" * 8 + b"\0\0",
        },
    )


def many_members(count: int) -> bytes:
    """Returns an archive; its directory names one local header very often."""
    local = struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 33, 0, 0, 0, 1, 0) + b"a"
    entry = struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    size = len(entry) * count
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, min(count, 65535), min(count, 65535), size, len(local), 0)
    return local + entry * count + end


# -- .pt -----------------------------------------------------------------------------------------------------------


def deflated(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members.items():
            made.writestr(name, data)
    return file.getvalue()


@lru_cache
def zeros() -> bytes:
    """Returns an archive of 600 KB with a member of 600 MB."""
    return deflated({"a/data.pkl": b"\x80\x02}.", "a/byteorder": bytes(600 << 20)})


@attack("formats.bombs.torch", environment=ENVIRONMENT)
def states(run: Run) -> None:
    """Inflating members, spreading tensors and growing programs are refused."""
    path = run.folder / "good.pt"
    save_torch(nn.Linear(2, 2), path)
    judge = Judge(run, ".pt", load_torch, path.read_bytes(), (CheckpointError,))
    tower = b"\x80\x02)" + b"q\x00h\x00\x86" * 60 + b"."
    doubling = b"\x80\x02X\x10\0\0\0aaaaaaaaaaaaaaaaq\x00" + b"(h\x00" * 5000 + b"."

    def spread(rng: random.Random) -> bytes:
        length = rng.choice((2**26, 2**28, 2**31 - 1))
        program = (
            b"\x80\x02(ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n"
            b"X\x01\0\0\x000X\x03\0\0\0cpuK\x04tQK\0J" + struct.pack("<i", length) + b"\x85K\0\x85\x89}tRt."
        )
        return archive([("a/data.pkl", program), ("a/data/0", bytes(16))])

    repeat(
        run,
        judge,
        {
            "a byteorder of 600 MB": lambda rng: zeros(),
            "a compressed pickle": lambda rng: deflated({"a/data.pkl": b"\x80\x02" + b"N" * 10**7}),
            "a spread tensor": spread,
            "a tower of pairs": lambda rng: archive([("a/data.pkl", tower)]),
            "a program of many marks": lambda rng: archive([("a/data.pkl", doubling)]),
            "a long program": lambda rng: archive([("a/data.pkl", b"\x80\x02](" + b"N" * 3_000_000 + b"e.")]),
            "many empty lists": lambda rng: archive([("a/data.pkl", b"\x80\x02(" + b"]" * 8_000_000 + b"t.")]),
            "many tensors of an element": lambda rng: elements(rng.choice((1000, 100_000))),
            "a directory of many members": lambda rng: many_members(400_000),
        },
    )


def elements(count: int) -> bytes:
    """Returns a file with a tensor for each element of one storage."""
    kind = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuJ" + struct.pack("<i", count) + b"tQ"
    begin = b"\x80\x02(ctorch._utils\n_rebuild_tensor_v2\nq\x00" + kind + b"q\x01K\x01\x85q\x02"
    each = b"".join(b"h\x00(h\x01J" + struct.pack("<i", at) + b"h\x02h\x02\x89NtR" for at in range(count))
    return archive([("a/data.pkl", begin + each + b"t."), ("a/data/0", bytes(4 * count))])


# -- safetensors -----------------------------------------------------------------------------------------------------


@attack("formats.bombs.safetensors", environment=ENVIRONMENT)
def headers(run: Run) -> None:
    """Headers of many entries, deep values, and lengths beyond the file."""
    path = run.folder / "good.safetensors"
    save_safetensors(nn.Linear(2, 2), path)
    judge = Judge(run, ".safetensors", load_safetensors, path.read_bytes(), (CheckpointError,))

    def header(text: str, length: int | None = None) -> bytes:
        return (len(text) if length is None else length).to_bytes(8, "little") + text.encode()

    def entries(count: int) -> bytes:
        empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
        return header(json.dumps({str(at): empty for at in range(count)}))

    repeat(
        run,
        judge,
        {
            "many empty tensors": lambda rng: entries(rng.choice((1000, 100_000))),
            "deep metadata": lambda rng: header('{"__metadata__":' * 1 + "[" * 100_000 + "]" * 100_000 + "}"),
            "a shape of many lengths": lambda rng: header(
                '{"a":{"dtype":"F32","shape":['
                + ",".join("0" * rng.choice((10**5, 5 * 10**6)))
                + '],"data_offsets":[0,0]}}'
            ),
            "a header longer than the file": lambda rng: header("{}", huge(rng)),
            "a shape beyond numbers": lambda rng: header(
                json.dumps({"a": {"dtype": "F32", "shape": [2**62, 2**62, 0], "data_offsets": [0, 0]}})
            ),
        },
    )


# -- ONNX ----------------------------------------------------------------------------------------------------------


def read_onnx(path: Path) -> Any:
    try:
        return import_onnx(path)
    except UnsupportedError:
        return None


@attack("formats.bombs.onnx", needs=library, environment=ENVIRONMENT)
def graphs(run: Run) -> None:
    """Constants that grow, data in other files wherever a tensor may be, empty messages, deep graphs, long names."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    info = helper.make_tensor_value_info

    def model(nodes: list[Any], constants: dict[str, Any]) -> bytes:
        tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
        nodes = [*nodes, helper.make_node("Relu", ["x"], ["y"])]
        made = helper.make_graph(nodes, "g", [info("x", 1, ["n", 4])], [info("y", 1, None)], initializer=tensors)
        return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()

    def grown(op: str, *inputs: Any, **attributes: Any) -> bytes:
        names = [f"i{at}" for at in range(len(inputs))]
        given = {name: value for name, value in zip(names, inputs) if value is not None}
        node = helper.make_node(op, [name if name in given else "" for name in names], ["o"], **attributes)
        return model([node], given)

    def secret() -> Any:
        tensor = TensorProto(name="t", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="passwd")
        return tensor

    def external(where: str) -> bytes:
        if where == "constant":
            return model([helper.make_node("Constant", [], ["o"], value=secret())], {})
        if where == "sparse":
            proto = onnx.ModelProto.FromString(model([], {}))
            proto.graph.sparse_initializer.add().values.CopyFrom(secret())
            return proto.SerializeToString()
        inner = helper.make_graph([], "inner", [], [], initializer=[secret()])
        return model([helper.make_node("If", ["x"], ["o"], then_branch=inner, else_branch=inner)], {})

    def doubled(times: int) -> bytes:
        nodes = [helper.make_node("Concat", [f"v{at}"] * 2, [f"v{at + 1}"], axis=0) for at in range(times)]
        return model(nodes, {"v0": np.zeros(64, np.int64)})

    one = np.ones((1, 1), np.int64)
    size = [np.array([number], np.int64) for number in (10**10, 2**40, 10**6)]
    judge = Judge(run, ".onnx", read_onnx, model([], {}), (CheckpointError,))
    ranges = (0, 10**12, 1), (0, 1, 0), (0.0, 1e30, 1e-30), (0.0, float("inf"), 1.0)
    repeat(
        run,
        judge,
        {
            "Tile": lambda rng: grown("Tile", one, np.repeat(rng.choice(size), 2)),
            "ConstantOfShape": lambda rng: grown("ConstantOfShape", rng.choice(size)),
            "Range": lambda rng: grown("Range", *(np.asarray(number) for number in rng.choice(ranges))),
            "Expand": lambda rng: grown("Expand", one, np.repeat(rng.choice(size), 2)),
            "Pad": lambda rng: grown("Pad", one, np.tile(rng.choice(size), 4)),
            "Resize": lambda rng: grown("Resize", one[None, None], None, None, np.repeat(rng.choice(size), 4)),
            "Resize by scales": lambda rng: grown("Resize", one[None, None], None, np.full(4, 3e3, np.float32)),
            "OneHot": lambda rng: grown("OneHot", np.zeros(9, np.int64), rng.choice(size), np.array([0.0, 1.0])),
            "MatMul": lambda rng: grown("MatMul", np.zeros((20000, 1), "i8"), np.zeros((1, 20000), "i8")),
            "MatMul of long rows": lambda rng: grown("MatMul", *[np.zeros((700, 700), np.int64)] * 2),
            "Add": lambda rng: grown("Add", np.zeros((30000, 1), "i8"), np.zeros((1, 30000), "i8")),
            "Einsum": lambda rng: grown("Einsum", *[np.zeros(3000, "i8")] * 3, equation="a,b,c->abc"),
            "Einsum of a letter": lambda rng: grown("Einsum", *[np.zeros((300, 300), "i8")] * 3, equation="ab,cd,ef->"),
            "Gather": lambda rng: grown("Gather", np.zeros((1, 10**5), "i8"), np.zeros(10**5, np.int64)),
            "Conv": lambda rng: grown("Conv", one[None, None], one[None, None], pads=[10**6] * 4),
            "MaxPool": lambda rng: grown("MaxPool", one[None, None], kernel_shape=[1, 1], pads=[10**6] * 4),
            "Concat, doubled": lambda rng: doubled(rng.choice((20, 40, 60))),
            "data elsewhere, Constant": lambda rng: external("constant"),
            "data elsewhere, sparse": lambda rng: external("sparse"),
            "data elsewhere, subgraph": lambda rng: external("subgraph"),
            "empty nodes": lambda rng: b"\x08\x08" + graph_of(b"\x0a\x00" * rng.choice((10**5, 9 * 10**5, 1 << 21))),
            "small nodes": lambda rng: model([helper.make_node("Relu", ["x"], [str(at)]) for at in range(50_000)], {}),
            "names of dots": lambda rng: model([], {"a." * rng.choice((1000, 30000)): np.ones(4, np.float32)}),
            "deep graphs": lambda rng: b"\x3a\x00" * 3 + deep(rng.choice((50, 5000))),
        },
    )


def deep(depth: int) -> bytes:
    """Returns a graph in an attribute of a node of a graph in ..."""
    data = b""
    for _ in range(depth):
        for tag in (b"\x32", b"\x2a", b"\x0a"):  # attribute.g, node.attribute, graph.node
            data = tag + length(len(data)) + data
    return b"\x3a" + length(len(data)) + data


def graph_of(contents: bytes) -> bytes:
    return b"\x3a" + length(len(contents)) + contents


def length(number: int) -> bytes:
    made = b""
    while number > 0x7F:
        made += bytes([number & 0x7F | 0x80])
        number >>= 7
    return made + bytes([number])


# -- netcl.data ------------------------------------------------------------------------------------------------------


@lru_cache
def inflating(size: int) -> bytes:
    """Returns 220 MB in gzip; the header announces ``size`` MB."""
    return gzip.compress(struct.pack(">4B3I", 0, 0, 8, 3, size, 1000, 1000) + bytes(220 << 20), 1)


@attack("formats.bombs.data")
def data(run: Run) -> None:
    """Headers and gzip members that inflate, rows of one cell, towers in pickles."""
    good = struct.pack(">4B3I", 0, 0, 8, 3, 2, 3, 4) + bytes(24)
    packed = Judge(run, ".gz", lambda path: read_idx(path, 3), gzip.compress(good), (ValueError,))
    repeat(run, packed, {f"{size} MB of 220": lambda rng, size=size: inflating(size) for size in (1, 200, 2000)})


@attack("formats.bombs.files", environment=ENVIRONMENT)
def files(run: Run) -> None:
    """Pipes, folders and devices in place of files are refused at once."""
    readers: dict[str, Callable[[Any], Any]] = {
        "load_model": load_model,
        "load_torch": load_torch,
        "load_safetensors": load_safetensors,
        "load_checkpoint": load_checkpoint,
        "NpyDataset": NpyDataset,
        "CSVDataset": CSVDataset,
    }
    if not library():
        readers["import_onnx"] = import_onnx
    pipe = run.folder / "pipe"
    if hasattr(os, "mkfifo"):  # not on Windows, where the name is that of a missing file
        os.mkfifo(pipe)
    places = [run.folder, pipe, Path("/dev/zero"), Path("/dev/null"), run.folder / "missing", "a\0b"]
    for rng in run.cases():
        name, place = (
            rng.choice(sorted(readers)),
            rng.choice([place for place in places if place != pipe or pipe.exists()]),
        )
        try:
            readers[name](place)
            run.fail(f"{name} read {place}")
        except (CheckpointError, ValueError, OSError):
            run.count("refused")
        except Exception as error:
            run.fail(f"{name}: {type(error).__name__} at {type(place).__name__}", reproducer=str(error)[:200])
