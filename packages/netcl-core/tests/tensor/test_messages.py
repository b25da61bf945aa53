"""Texts of errors: the value, position and size at fault, the name to write instead, close to the caller's line."""

from __future__ import annotations

import subprocess
import sys
import traceback

import numpy as np
import pytest

import netcl as nc
from netcl import ops
from netcl.core import Tensor
from netcl.core.errors import ArgumentError, DTypeError, ShapeError, from_here

FAR = 70_000  # past the work-items of a group, the vectors of a loop and the chunks of a CPU


def _frames_below(call) -> int:
    """Returns the number of frames that the traceback of an error shows below the caller's."""
    with pytest.raises(Exception) as caught:
        call()
    frames = traceback.extract_tb(caught.value.__traceback__)
    return len(frames) - 1 - max(at for at, frame in enumerate(frames) if frame.filename == __file__)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_an_index_out_of_range_is_named_with_position_and_size(engine, dtype):
    where = np.zeros((3, 50), np.int64)
    where[2, 7] = 9
    index, table = Tensor.from_host(where, dtype), Tensor.from_host(np.ones((5, 4), np.float32))
    message = "{}: index 9 at position 107 is out of range for a length of 5"
    flat = Tensor.from_host(np.ones(5, np.float32))
    for name, call in {
        "embedding": lambda: ops.embedding(index, table),
        "take": lambda: ops.take(table, index, 0),
        "getitem": lambda: table[index],
        "gather": lambda: ops.gather(Tensor.from_host(np.ones((5, 50), np.float32)), 0, index),
        "index_select": lambda: nc.index_select(flat, 0, index.reshape(-1)),
        "scatter_add": lambda: ops.scatter_add(
            Tensor.from_host(np.ones((5, 50), np.float32)), 0, index, Tensor.from_host(np.ones((3, 50), np.float32))
        ),
    }.items():
        result = call()
        with pytest.raises(IndexError, match=message.format(name)):
            result.numpy()
    with pytest.raises(IndexError, match="one_hot: index 9 at position 107 is out of range for 6 classes"):
        ops.one_hot(index, 6).numpy()
    assert ops.take(table, Tensor.from_host(where * 0), 0).numpy().sum() == 600  # the flag is down again


@pytest.mark.parametrize("at", [0, 1, 12_345, FAR - 1])
def test_the_position_is_right_in_every_part_of_a_launch(engine, at):
    where = np.ones(FAR, np.int64)
    where[at] = -8
    index, table = Tensor.from_host(where), Tensor.from_host(np.ones((5, 3), np.float32))
    with pytest.raises(IndexError, match=f"index -8 at position {at} is out of range for a length of 5$"):
        ops.take(table, index, 0).numpy()
    pairs = table[index, Tensor.from_host(np.zeros(FAR, np.int64))]  # generated, in vectors
    with pytest.raises(IndexError, match=f"index -8 at position {at} is out of range for a length of 5$"):
        pairs.numpy()


def test_the_first_of_several_faults_is_kept(engine):
    table = Tensor.from_host(np.ones((5, 3), np.float32))
    first, second = (Tensor.from_host(np.array([value])) for value in (6, 7))
    rows, more = ops.embedding(first, table), ops.take(table, second, 0)
    with pytest.raises(IndexError, match="embedding: index 6 at position 0"):
        more.numpy()
    assert rows.shape == (1, 3)


def test_tensor_takes_sizes_data_or_a_buffer(engine):
    assert Tensor(3, 4).shape == (3, 4)
    assert Tensor(3).shape == (3,)
    assert Tensor().shape == (0,)
    made = Tensor([1, 2.5])
    assert (made.tolist(), made.dtype, made.engine) == ([1.0, 2.5], "float32", engine)
    assert Tensor(np.array([[1, 2]])).dtype == "float32"
    copied = Tensor(made)
    copied += 1
    assert made.tolist() == [1.0, 2.5]
    again = Tensor(made.buffer, (2,), "float32", made.context, made.queue, array=made.array, backend=made.backend)
    assert again.tolist() == [1.0, 2.5]
    with pytest.raises(TypeError, match=r"write netcl.tensor\(data, dtype=...\)"):
        Tensor([1.0], dtype="float64")
    with pytest.raises(ShapeError, match="non-negative"):
        Tensor(-1, 2)
    with pytest.raises(TypeError, match="'context' and 'queue'"):
        Tensor([1.0], (1,), "float32")
    try:
        nc.set_default_dtype("float64")
        assert (Tensor(2).dtype, Tensor([1.0]).dtype) == ("float64", "float64")
    finally:
        nc.set_default_dtype("float32")


def test_a_member_that_only_pytorch_has_says_what_to_write(numpy_device):
    x = nc.zeros(3)
    with pytest.raises(AttributeError, match="Tensor has no 'index': write x"):
        x.index  # noqa: B018
    with pytest.raises(AttributeError, match="Tensor has no 'coalesce': of a sparse tensor"):
        x.coalesce()
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'relv'"):
        x.relv  # noqa: B018
    assert not hasattr(x, "coalesce")
    with pytest.raises(AttributeError, match="netcl has no 'cond': write Python's if and while"):
        nc.cond  # noqa: B018
    with pytest.raises(AttributeError, match="netcl has no 'fft': there are no complex dtypes"):
        nc.fft  # noqa: B018
    with pytest.raises(AttributeError, match="module 'netcl' has no attribute 'relv'"):
        nc.relv  # noqa: B018
    assert getattr(x, "nothing", 3) == 3


@pytest.mark.parametrize("given", [[1.0, 2.0], np.ones(2)], ids=["list", "array"])
def test_a_list_or_an_array_in_place_of_a_tensor_is_named(numpy_device, given):
    kind = type(given).__name__
    with pytest.raises(TypeError, match=rf"reshape: expected a tensor as x, got {kind}; write netcl.tensor\(x\)"):
        nc.reshape(given, (2, 1))
    with pytest.raises(TypeError, match=rf"index_select: expected a tensor as \w+, got {kind}"):
        nc.index_select(given, 0, nc.tensor([1]))


def test_errors_are_raised_close_to_the_caller(numpy_device):
    x, index = nc.zeros(4, 3), nc.tensor([9])
    calls = [
        lambda: x + nc.zeros(4, 4), lambda: x @ x, lambda: x.sum(dim=5), lambda: nc.sum(x, dim=5), lambda: x.view(5, 5),
        lambda: x[9], lambda: x[[0, 9]], lambda: nc.cat([x, nc.zeros(4, 4)]), lambda: ops.add(x, nc.zeros(2, 2)),
        lambda: nc.zeros(3, dtype="float33"), lambda: nc.zeros(-1), lambda: nc.zeros(2, device="cuda:9"),
        lambda: nc.tensor(["a"]), lambda: Tensor("a"), lambda: Tensor.from_host(["a"]), lambda: x.to("no such device"),
        lambda: x.add_(nc.zeros(2, 2)), lambda: nc.relu([1.0]), lambda: x[index].numpy(), lambda: x[index].tolist(),
        lambda: x[index].sum().item(), lambda: float(x[index].sum()), lambda: x.nosuch,
    ]  # fmt: skip
    deep = {at: frames for at, call in enumerate(calls) if (frames := _frames_below(call)) > 3}
    assert not deep


@from_here
def _calls(function):
    return function()


def _raises_by_itself():
    raise ValueError("of the user")


def test_frames_of_users_and_of_errors_that_netcl_does_not_raise_are_kept(numpy_device):
    with pytest.raises(ValueError, match="of the user") as caught:
        _calls(_raises_by_itself)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "_raises_by_itself"
    with pytest.raises(AttributeError, match="lower") as caught:
        _calls(lambda: nc.core.dtypes.canonical.lower)
    assert len(traceback.extract_tb(caught.value.__traceback__)) > 2


def test_development_mode_keeps_every_frame():
    code = (
        "import traceback, netcl as nc\n"
        "try:\n    nc.zeros(2, 3) + nc.zeros(3, 3)\n"
        "except ValueError as error:\n    print(len(traceback.extract_tb(error.__traceback__)))"
    )
    short, whole = (
        int(subprocess.run([sys.executable, *more, "-c", code], capture_output=True, text=True, check=True).stdout)
        for more in ([], ["-X", "dev"])
    )
    assert short <= 4 < whole


def test_a_dtype_error_names_the_op(numpy_device):
    with pytest.raises(DTypeError, match="logical_and|bitwise_and"):
        nc.zeros(2) & nc.zeros(2)


class Something:
    """A value that no function of netcl knows."""


@pytest.mark.parametrize("wrong", [3, None, "text", ["a"], {"a": 1}, Something(), 2.5])
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x, wrong: nc.mm(x, wrong), "mm"),
        (lambda x, wrong: nc.mm(wrong, x), "mm"),
        (lambda x, wrong: nc.full_like(wrong, 1), "full_like"),
        (lambda x, wrong: nc.adjoint(wrong), "adjoint"),
        (lambda x, wrong: nc.diag_embed(x, dim1=wrong), "diag_embed"),
        (lambda x, wrong: nc.linspace(0, 1, steps=x.shape if wrong == 3 else wrong), "linspace"),
        (lambda x, wrong: nc.as_strided_copy(wrong, (1,), (1,)), "as_strided_copy"),
        (lambda x, wrong: nc.lstm_cell(x, wrong, x, x), "lstm_cell"),
    ],
)
def test_a_wrong_argument_is_named(call, name, wrong, handle):
    if (name, wrong) in (("diag_embed", 3), ("diag_embed", 2.5)):
        wrong = object()
    with pytest.raises(TypeError, match=f"^{name}: .*(expected .* as|got)"):
        call(nc.ones(2, 2, device=handle), wrong)


def test_a_value_that_python_cannot_read_is_said_to_be_an_argument():
    with pytest.raises(ArgumentError, match="unsqueeze: .*axis: str 'text'") as caught:
        nc.unsqueeze(nc.ones(2), "text")
    assert isinstance(caught.value, ValueError)
    with pytest.raises(TypeError, match="tile: .*as an integer.*tuple of 1"):
        nc.ones(2).tile("text")


def test_an_error_of_the_users_own_function_is_not_renamed():
    class Odd:
        @property
        def ndim(self):
            raise AttributeError("mine")

    with pytest.raises(AttributeError, match="^mine$"):
        nc.mm(Odd(), nc.ones(2, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.put(3, x), "put: .* got index: int 3, source: Tensor"),
        (lambda x: x.diag_embed(None), "diag_embed: expected int as offset, got NoneType"),
        (lambda x: x.expand_as(3), "expand_as: .* got other: int 3"),
        (lambda x: x.tensor_split(None), "tensor_split: .* got indices_or_sections: NoneType"),
    ],
)
def test_methods_without_a_row_name_their_arguments(call, message):
    with pytest.raises(TypeError, match=message):
        call(nc.ones(3, 4))
