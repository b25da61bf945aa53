"""Files that reach outside or ask for more than they hold: CheckpointError with the file and the place."""

from __future__ import annotations

import io
import json
import os
import threading
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl import nn
from netcl.io import (
    Budget,
    CheckpointError,
    import_onnx,
    load_model,
    load_params,
    load_safetensors,
    load_torch,
    save_model,
    save_params,
    save_safetensors,
    save_torch,
)
from netcl.io.archive import entry_of, write_archive


def described(path: Path, config: Any) -> Path:
    """Returns a model file with this description, a correct hash and no arrays."""
    write_archive(path, {"format": "netcl.single-file", "version": 3, "config": config}, [])
    return path


# -- models ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("LSTM", {"input_size": 2, "hidden_size": 2, "num_layers": 10**7}),
        ("GPT", {"vocab_size": 8, "block_size": 8, "n_layer": 10**9, "n_head": 1, "n_embd": 8}),
        (
            "TransformerEncoder",
            {"encoder_layer": {"module": {"type": "ReLU", "arguments": {}}}, "num_layers": 10**9},
        ),
    ],
)
def test_layers_are_counted_as_elements_are(name: str, arguments: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="Budget|must be from 1 to 4096"):
        load_model(described(tmp_path / "m.netcl", {"type": name, "arguments": arguments}))


@pytest.mark.parametrize(
    ("name", "arguments", "wrong"),
    [
        ("VisionTransformer", {"dim": 10**6, "mlp_ratio": "a" * 1000}, "expected a number as mlp_ratio, got str"),
        ("VisionTransformer", {"dim": 10**6, "mlp_ratio": [1] * 1000}, "expected a number as mlp_ratio, got list"),
        ("Linear", {"*": [[3] * 1000, 2]}, "expected a number as in_features, got list"),
    ],
)
def test_a_text_or_a_list_is_no_number(name: str, arguments: dict[str, Any], wrong: str, tmp_path: Path) -> None:
    """A constructor multiplied it by another number of the file, and so made gigabytes of it."""
    with pytest.raises(CheckpointError, match=wrong):
        load_model(described(tmp_path / "m.netcl", {"type": name, "arguments": arguments}))


def test_a_larger_budget_reads_more(tmp_path: Path) -> None:
    model = nn.Sequential(*(nn.ReLU() for _ in range(50)))
    save_model(model, tmp_path / "m.netcl")
    with pytest.raises(CheckpointError, match="pass budget="):
        load_model(tmp_path / "m.netcl", budget=Budget(seconds=1e-3))
    assert len(load_model(tmp_path / "m.netcl")) == 50


def test_only_the_directory_of_a_large_file_is_charged(tmp_path: Path) -> None:
    """zipfile reads the end of an archive without a length: 22 bytes, which were charged as the whole file."""
    model = nn.Linear(2300, 2300)  # 21 MB
    save_model(model, tmp_path / "m.netcl")
    assert len(load_model(tmp_path / "m.netcl").state_dict()) == 2
    save_torch(model, tmp_path / "m.pt")
    assert len(load_torch(tmp_path / "m.pt")) == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("read", [load_model, load_torch, load_safetensors, import_onnx])
def test_a_pipe_is_refused_at_once(read: Any, tmp_path: Path) -> None:
    if read is import_onnx:
        pytest.importorskip("onnx")
    os.mkfifo(tmp_path / "pipe")
    caught: list[BaseException] = []

    def call() -> None:
        try:
            read(tmp_path / "pipe")
        except CheckpointError as error:
            caught.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(20)
    assert caught
    assert "not a regular file" in str(caught[0])


@pytest.mark.parametrize("dtype", ["uint16", "int8", "uint64"])
def test_a_dtype_that_netcl_lacks_is_refused_with_its_array(dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "p.netcl"
    from netcl.core import Tensor

    save_params([Tensor.ones((2,))], path)
    with np.load(path) as arrays:
        meta = json.loads(str(arrays["__netcl_meta__"]))
    write_archive(path, meta, [entry_of("model/0", np.ones(2, dtype))])
    try:
        made = load_params(None, None, path)
    except CheckpointError as error:
        assert "model/0" in str(error)
    else:  # a core that has the dtype
        assert made[0].dtype == dtype


# -- .pt -------------------------------------------------------------------------------------------------------------


def test_no_member_of_an_archive_is_inflated(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a/data.pkl", b"\x80\x02}.")
        made.writestr("a/byteorder", bytes(9 << 20))
    (tmp_path / "m.pt").write_bytes(file.getvalue())
    with pytest.raises(CheckpointError, match="a/byteorder has 9437184 bytes"):
        load_torch(tmp_path / "m.pt")


def pickled(tmp_path: Path, program: bytes, storage: bytes = b"") -> Path:
    with zipfile.ZipFile(tmp_path / "m.pt", "w") as made:
        made.writestr("a/data.pkl", program)
        made.writestr("a/data/0", storage)
    return tmp_path / "m.pt"


def test_what_a_pickle_makes_is_charged(tmp_path: Path) -> None:
    """An instruction of one byte made an empty list: 30 MB became 380."""
    path = pickled(tmp_path, b"\x80\x02(" + b"]" * 300_000 + b"t.")
    assert len(load_torch(path)) == 300_000
    with pytest.raises(CheckpointError, match=r"what its pickle makes takes .*pass budget="):
        load_torch(path, budget=Budget(bytes=8 << 20))
    with pytest.raises(CheckpointError, match="running its pickle takes too long"):
        load_torch(path, budget=Budget(seconds=0.1))


def test_tensors_without_elements_of_their_own_are_charged(tmp_path: Path) -> None:
    """A file of 2 MB had 100,000 tensors, which took 4 s."""
    count = 5000
    storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuM\x88\x13tQq\x01"
    begin = b"\x80\x02(ctorch._utils\n_rebuild_tensor_v2\nq\x00" + storage + b"K\x01\x85q\x02"
    each = b"".join(b"h\x00(h\x01M" + at.to_bytes(2, "little") + b"h\x02h\x02\x89NtR" for at in range(count))
    path = pickled(tmp_path, begin + each + b"t.", bytes(4 * count))
    assert len(load_torch(path)) == count + 3
    with pytest.raises(CheckpointError, match="making its tensors takes too long"):
        load_torch(path, budget=Budget(seconds=0.1))


def test_members_of_an_archive_are_charged(tmp_path: Path) -> None:
    """A file of 50 MB had 100,000 arrays of one element, which took 5 s."""
    from netcl.core import Tensor

    save_params([Tensor.ones((1,))] * 2000, tmp_path / "p.netcl")
    assert len(load_params(None, None, tmp_path / "p.netcl")) == 2000
    with pytest.raises(CheckpointError, match="reading the members of the archive takes too long"):
        load_params(None, None, tmp_path / "p.netcl", budget=Budget(seconds=0.02))


@pytest.mark.parametrize("value", [[], {}, 1])
def test_values_of_a_description_are_charged(value: Any, tmp_path: Path) -> None:
    """150 MB of empty lists became 600."""
    path = tmp_path / "m.netcl"
    meta = {"format": "netcl.single-file", "version": 3, "config": {"type": "ReLU", "arguments": {}}}
    write_archive(path, {**meta, "more": [value] * 200_000}, [])
    assert isinstance(load_model(path), nn.ReLU)
    with pytest.raises(CheckpointError, match=r"the description takes .*pass budget="):
        load_model(path, budget=Budget(bytes=1 << 20))


# -- safetensors -----------------------------------------------------------------------------------------------------


def test_a_changed_weight_in_a_file_of_netcl_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_safetensors(nn.Linear(3, 2), path)
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    with pytest.raises(CheckpointError, match="'bias' does not have the checksum|'weight' does not have the checksum"):
        load_safetensors(path)


def test_a_changed_shape_in_a_file_of_netcl_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_safetensors(nn.Linear(3, 2), path)
    whole = path.read_bytes()
    assert whole.count(b'"shape":[2,3]') == 1
    path.write_bytes(whole.replace(b'"shape":[2,3]', b'"shape":[3,2]'))
    with pytest.raises(CheckpointError, match="its header does not have the checksum"):
        load_safetensors(path)


def test_a_damaged_array_is_not_written_into_a_model(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_safetensors({"weight": np.ones((1, 1), np.float32)}, path)
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    model = nn.Linear(1, 1, bias=False)
    before = model.weight.to_host()
    with pytest.raises(CheckpointError):
        load_safetensors(path, model)
    np.testing.assert_array_equal(model.weight.to_host(), before)


@pytest.mark.parametrize("fault", ["an error of the disk", "an early end"])
def test_a_fault_of_a_read_is_named_with_its_array(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.safetensors"
    save_safetensors(nn.Linear(3, 2), path)
    model = nn.Linear(3, 2)
    before = {name: tensor.to_host() for name, tensor in model.state_dict().items()}

    class Faulty(io.BufferedReader):
        def readinto(self, room: Any) -> int:
            if fault == "an early end":
                return super().readinto(memoryview(room)[:-1])
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdopen", lambda handle, mode: Faulty(io.FileIO(handle, mode)))
    with pytest.raises(CheckpointError, match=r"m\.safetensors: .*the array '(weight|bias)'"):
        load_safetensors(path, model)
    for name, tensor in model.state_dict().items():
        np.testing.assert_array_equal(tensor.to_host(), before[name])


def test_lengths_of_a_shape_are_charged(tmp_path: Path) -> None:
    """20 MB of them took 400."""
    text = b'{"x":{"dtype":"F32","shape":[' + b",".join([b"0"] * 500_000) + b'],"data_offsets":[0,0]}}'
    (tmp_path / "x").write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(CheckpointError, match=r"the header takes .*pass budget="):
        load_safetensors(tmp_path / "x", budget=Budget(bytes=1 << 20))


@pytest.mark.parametrize("damaged", [False, True])
def test_files_with_the_checksums_of_earlier_versions_are_read_and_compared(damaged: bool, tmp_path: Path) -> None:
    values = np.arange(3000, dtype=np.float32)
    listed = json.dumps([[["x", "F32", [3000]]], {}], sort_keys=True, separators=(",", ":")).encode()
    sums = f"{zlib.crc32(listed):08x} {zlib.crc32(values.tobytes()):08x}"
    header = {"__metadata__": {"netcl.crc32": sums}, "x": {"dtype": "F32", "shape": [3000], "data_offsets": [0, 12000]}}
    text = json.dumps(header).encode()
    if damaged:
        values[2999] = 0
    (tmp_path / "x").write_bytes(len(text).to_bytes(8, "little") + text + values.tobytes())
    if damaged:
        with pytest.raises(CheckpointError, match="'x' does not have the checksum.* remove 'netcl.crc32' there"):
            load_safetensors(tmp_path / "x")
    else:
        np.testing.assert_array_equal(load_safetensors(tmp_path / "x")["x"].to_host(), values)


@pytest.mark.parametrize("change", ["a bit", "two elements", "two rows", "a page of zeros", "the last byte"])
def test_damage_of_a_large_array_is_seen(change: str, tmp_path: Path, rng: np.random.Generator) -> None:
    path, values = tmp_path / "x", rng.integers(0, 1000, (70, 2048)).astype(np.float32)
    values[2:4, 5] = 2000, 3000
    save_safetensors({"x": values}, path)
    np.testing.assert_array_equal(load_safetensors(path)["x"].to_host(), values)
    whole = bytearray(path.read_bytes())
    array = np.frombuffer(whole, np.float32, offset=len(whole) - values.nbytes).reshape(values.shape)
    if change == "a bit":
        array.view(np.uint32)[33, 700] ^= 1 << 31
    elif change == "two elements":  # of one column, as rows of the sum have 8 KiB
        array[2:4, 5] = 3000, 2000
    elif change == "two rows":
        array[[4, 60]] = array[[60, 4]]
    elif change == "a page of zeros":
        array[50, :1024] = 0
    else:
        whole[-1] ^= 1
    path.write_bytes(whole)
    with pytest.raises(CheckpointError, match="the array 'x' does not have the checksum"):
        load_safetensors(path)


def test_files_without_checksums_are_read(tmp_path: Path) -> None:
    text = b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    (tmp_path / "x").write_bytes(len(text).to_bytes(8, "little") + text + np.float32(2).tobytes())
    assert load_safetensors(tmp_path / "x")["x"].to_host() == [2]


# -- ONNX ------------------------------------------------------------------------------------------------------------


def onnx_file(path: Path, op: str, *inputs: Any, **attributes: Any) -> Path:
    """Returns an ONNX file with a node that computes from constants, next to a Relu of its input."""
    pytest.importorskip("onnx")
    from onnx import helper, numpy_helper

    names = [f"i{at}" if value is not None else "" for at, value in enumerate(inputs)]
    given = [numpy_helper.from_array(np.asarray(v), n) for n, v in zip(names, inputs) if v is not None]
    nodes = [helper.make_node(op, names, ["o"], name="the_bomb", **attributes), helper.make_node("Relu", ["x"], ["y"])]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [info("x", 1, ["n"])], [info("y", 1, ["n"])], initializer=given)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


ONE = np.ones((1, 1), np.int64)
MANY = np.array([10**7, 10**7], np.int64)
BOMBS = [
    ("Tile", ONE, MANY),
    ("Expand", ONE, MANY),
    ("ConstantOfShape", MANY),
    ("Range", np.int64(0), np.int64(10**15), np.int64(1)),
    ("Range", np.int64(0), np.int64(1), np.int64(0)),
    ("Pad", ONE, np.array([10**9] * 4, np.int64)),
    ("Resize", ONE[None, None], None, None, np.array([10**6] * 4, np.int64)),
    ("MatMul", np.zeros((10**5, 1), np.int64), np.zeros((1, 10**5), np.int64)),
    ("Gather", ONE, np.array([5], np.int64)),
    ("Reshape", ONE, np.array([7], np.int64)),
]


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb[0])
def test_constants_are_bounded_before_they_are_computed(bomb: tuple[Any, ...], tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"the node 'the_bomb'"):
        import_onnx(onnx_file(tmp_path / "m.onnx", *bomb))


def secret() -> Any:
    from onnx import TensorProto

    tensor = TensorProto(name="t", data_type=1, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")
    return tensor


def test_a_constant_in_another_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.bin").write_bytes(np.float32(1).tobytes())
    with pytest.raises(CheckpointError, match="keeps data in other files"):
        import_onnx(onnx_file(tmp_path / "m.onnx", "Constant", value=secret()))


def test_a_graph_in_a_model_file_reads_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx")
    import base64

    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.bin").write_bytes(np.float32(1).tobytes())
    graph = base64.b64encode(onnx_file(tmp_path / "m.onnx", "Constant", value=secret()).read_bytes()).decode()
    config = {"type": "ONNXModel", "arguments": {"graph": graph, "weights": []}}
    with pytest.raises(CheckpointError, match="keeps data in other files"):
        load_model(described(tmp_path / "m.netcl", config))


@pytest.mark.parametrize("graph", ["~~~~", "", "~not base64~"])
def test_garbage_is_no_empty_model(graph: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    config = {"type": "ONNXModel", "arguments": {"graph": graph, "weights": []}}
    with pytest.raises(CheckpointError):
        load_model(described(tmp_path / "m.netcl", config))


def test_a_name_with_thousands_of_dots_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    from onnx import helper, numpy_helper

    weight = numpy_helper.from_array(np.ones(1, np.float32), "a." * 5000 + "w")
    nodes = [helper.make_node("Add", ["x", weight.name], ["y"])]
    info = helper.make_tensor_value_info
    made = helper.make_graph(nodes, "g", [info("x", 1, ["n"])], [info("y", 1, ["n"])], initializer=[weight])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(CheckpointError, match="5,000 levels"):
        import_onnx(tmp_path / "m.onnx")


@pytest.mark.parametrize("count", [1 << 21, 900_000])
def test_millions_of_empty_messages_are_counted_before_they_are_made(count: int, tmp_path: Path) -> None:
    """A million in 2 MB took 325 MB, as they were charged as items alone."""
    pytest.importorskip("onnx")
    nodes = b"\x0a\x00" * count
    length = bytes(((2 * count) >> 7 * at) & 0x7F | (0x80 if at < 3 else 0) for at in range(4))
    (tmp_path / "m.onnx").write_bytes(b"\x08\x08\x3a" + length + nodes)
    with pytest.raises(CheckpointError, match=r"messages.*Budget"):
        import_onnx(tmp_path / "m.onnx")
