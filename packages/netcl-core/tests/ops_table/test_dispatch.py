"""The op table and the hook stack: how a call reaches the backend, and who sees it on the way."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from netcl import ops
from netcl.core import Tensor
from netcl.core.errors import DTypeError, ShapeError, UnsupportedError
from netcl.core.expr import Load, Scalar
from netcl.core.ops_table import dispatch
from netcl.core.ops_table.dispatch import Domain, call, pop_hook, push_hook, register_op, row_of, set_recorder, snapshot
from netcl.core.process.hook_stack import hooks_of_thread


@pytest.fixture
def x():
    return Tensor.from_host(np.arange(6, dtype=np.float32).reshape(2, 3), backend="cpu")


@pytest.fixture
def seen():
    """Names of the rows that pass, by layer."""
    return []


@pytest.fixture
def hook(seen):
    pushed = []

    def push(layer):
        def note(next, row, args, kwargs):
            seen.append(f"{layer} {row.name}")
            return next(row, args, kwargs)

        pushed.append(push_hook(note, layer))
        return note

    yield push
    for note in pushed:
        if any(entry[1] is note for entry in hooks_of_thread.hooks):
            pop_hook(note)


@pytest.fixture
def recorder(seen):
    def record(next, row, args, kwargs):
        seen.append(f"recorder {row.name}")
        return next(row, args, kwargs)

    previous = set_recorder(record)
    yield record
    assert set_recorder(previous) is record


def test_layers_are_called_from_the_outside_in(x, seen, hook, recorder):
    for layer in ("tracer", "autocast", "profiler"):
        hook(layer)
    call("exp", x, record=True)
    assert seen == ["profiler exp", "autocast exp", "recorder exp", "tracer exp"]


def test_ops_are_not_recorded_and_operators_are(x, seen, recorder):
    ops.add(x, x)
    assert seen == []
    assert (x + x).shape == (2, 3)
    assert seen == ["recorder add"]


def test_the_parts_of_a_recorded_composite_are_recorded(x, seen, recorder):
    call("bias_add", x, Tensor.ones(3, queue=x.queue), record=True)
    assert seen == ["recorder reshape", "recorder add"]
    seen.clear()
    ops.bias_add(x, Tensor.ones(3, queue=x.queue))
    assert seen == []


def test_nothing_is_recorded_inside_of_a_computed_op(x, seen, recorder):
    whole = Tensor.from_host(np.arange(6).reshape(2, 3), backend="cpu")
    call("matmul", whole, whole, record=True, transpose_a=True)
    assert seen == ["recorder matmul"]


def test_the_newest_hook_of_a_layer_is_outermost(x, seen, hook):
    first, second = hook("profiler"), hook("profiler")
    order = [entry[1] for entry in hooks_of_thread.hooks]
    assert order == [second, first]
    call("exp", x)
    assert len(seen) == 2


def test_a_hook_can_replace_the_call(x):
    def double(next, row, args, kwargs):
        return next(row_of("add"), (args[0], args[0]), {})

    push_hook(double)
    try:
        assert call("exp", x).tolist() == [[0, 2, 4], [6, 8, 10]]
    finally:
        pop_hook(double)
    with pytest.raises(ValueError, match="not on the stack"):
        pop_hook(double)


def test_hooks_belong_to_a_thread_and_travel_by_snapshot(x, seen, hook):
    hook("profiler")
    taken = snapshot()

    def plain():
        call("exp", x)

    def carried():
        with taken.active():
            call("log", x)
        call("neg", x)

    for target in (plain, carried):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    assert seen == ["profiler log"]


def test_keywords_of_pytorch(x):
    assert ops.sum(x, dim=1, keepdim=True).shape == (2, 1)
    assert ops.softmax(x, dim=0).shape == (2, 3)
    image = Tensor.ones((1, 1, 4, 4), queue=x.queue)
    assert ops.conv2d(image, Tensor.ones((1, 1, 3, 3), queue=x.queue), pad=1).shape == (1, 1, 4, 4)
    assert ops.cat([x, x], dim=1).shape == (2, 6)
    assert (
        ops.flip(x, dims=0).tolist() == [[3, 4, 5], [0, 1, 2]] if "dims" in ops.flip.row.signature.parameters else True
    )


def test_out_without_elements_takes_the_shape_and_results_are_converted(x):
    def empty(*shape, dtype="float32"):
        return Tensor.zeros(shape, dtype, queue=x.queue)

    for compute, expected in (
        (lambda out: ops.add(x, x, out=out), [[0, 2, 4], [6, 8, 10]]),
        (lambda out: ops.sum(x, 1, out=out), [3, 12]),
        (lambda out: ops.matmul(x, x, transpose_b=True, out=out), [[5, 14], [14, 50]]),
        (lambda out: ops.cat([x, x], 1, out=out), [[0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 5]]),
    ):
        out = empty(0)
        assert compute(out) is out
        assert out.tolist() == expected
    whole, target = x.astype("int64"), empty(2, 3)
    ops.add(whole, whole, out=target)
    assert (target.dtype, target.tolist()) == ("float32", [[0, 2, 4], [6, 8, 10]])
    with pytest.raises(DTypeError, match="add: expected out to take float32, got a tensor of int64"):
        ops.add(x, x, out=empty(2, 3, dtype="int64"))
    with pytest.raises(DTypeError, match="cat: expected out to take int64, got a tensor of bool"):
        ops.cat([whole, whole], out=empty(4, 3, dtype="bool"))


def test_out(x):
    target = Tensor.zeros((2, 3), queue=x.queue)
    assert ops.add(x, 1, out=target) is target
    assert target.tolist() == [[1, 2, 3], [4, 5, 6]]
    ops.mul(target, 2.0, out=target)
    assert target.tolist() == [[2, 4, 6], [8, 10, 12]]
    assert ops.matmul(target, Tensor.eye(3, queue=x.queue), out=target) is target
    assert ops.flip(x, 1, out=target).tolist() == [[2, 1, 0], [5, 4, 3]]
    with pytest.raises(ShapeError, match=r"add: expected out of shape \(\), got \(2, 3\)"):
        ops.add(ops.sum(x), 1, out=target)
    with pytest.raises(ShapeError, match=r"matmul: expected out of shape \(2, 2\), got \(2, 3\)"):
        ops.matmul(x, x, transpose_b=True, out=target)
    with pytest.raises(TypeError, match="split: expected out= to be a tuple of 2 tensors, got Tensor"):
        ops.split(x, 1, out=target)
    with pytest.raises(TypeError, match="matmul: expected out= to be one tensor, got int"):
        ops.matmul(x, x, transpose_b=True, out=3)


def test_out_of_several_results_takes_as_many_tensors(x):
    values, indices = Tensor.zeros((2, 1), queue=x.queue), Tensor.zeros((2, 1), "int64", queue=x.queue)
    found = ops.topk(x, 1, out=(values, indices))
    assert found.values is values
    assert values.tolist() == [[2], [5]]
    assert indices.tolist() == [[2], [2]]


def test_out_may_be_a_view(x):
    target = Tensor.zeros((3, 3), queue=x.queue)
    ops.add(x, 1, out=target[1:])
    ops.flip(x, 1, out=target[:2])
    assert target.tolist() == [[2, 1, 0], [5, 4, 3], [4, 5, 6]]


def test_arguments_are_checked_by_name(x):
    with pytest.raises(TypeError, match=r"relu.*got an unexpected keyword argument 'slope'"):
        ops.relu(x, slope=1.0)
    with pytest.raises(TypeError, match="expected at least one Tensor as operand"):
        ops.add(1, 2)
    with pytest.raises(TypeError, match="expected tensors, arrays and numbers as operands, got str"):
        ops.add(x, "1")
    with pytest.raises(TypeError, match="matmul: expected a tensor as b, got ndarray"):
        ops.matmul(x, np.ones((3, 2)))
    with pytest.raises(ShapeError, match=r"add: shapes \(2, 3\) and \(2,\) do not broadcast"):
        ops.add(x, np.ones(2))
    with pytest.raises(ShapeError, match="sum: axis 2 is out of range for 2 dimensions"):
        ops.sum(x, 2)


def test_arrays_and_numpy_scalars_beside_a_tensor(x):
    assert (x + np.float64(1.5)).dtype == "float32"
    assert ops.add(x, np.ones((1, 3), np.int32)).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert (np.ones((2, 3), np.float32) - x).tolist() == [[1, 0, -1], [-2, -3, -4]]


def test_operands_may_come_after_attributes(x):
    weight = Tensor.from_host(np.array([1, 2, 3], np.float32), backend="cpu")
    assert ops.layer_norm(x, 3, weight).shape == (2, 3)
    np.testing.assert_allclose(ops.layer_norm(x, (3,), weight).numpy(), ops.layer_norm(x, 3).numpy() * [1, 2, 3])


def test_attributes_that_are_launch_scalars_share_a_program(x):
    row = row_of("leaky_relu")
    first, second = (dispatch.bind(row, (x,), {"slope": slope}) for slope in (0.1, 0.2))
    assert first.program is second.program
    assert (first.scalars, second.scalars) == ({"slope": 0.1}, {"slope": 0.2})
    assert (
        dispatch.bind(row_of("sum"), (x,), {"axis": 0}).program
        is not dispatch.bind(row_of("sum"), (x,), {"axis": 1}).program
    )


def test_evaluate_writes_in_place(x):
    version = x.version
    moved = Load(0, "float32") - Scalar("lr", "float32") * Load(1, "float32")
    grad = Tensor.ones((2, 3), queue=x.queue)
    (same,) = dispatch.evaluate((moved,), (x, grad), {"lr": 0.5}, out=(x,))
    assert same is x
    assert x.version == version + 1
    assert x.tolist() == [[-0.5, 0.5, 1.5], [2.5, 3.5, 4.5]]


def test_rows_by_name():
    assert row_of("relu").operands == ("x",)
    assert row_of("conv2d").operands == ("x", "weight", "bias")
    assert set(row_of("clamp").attributes) == {"min", "max"}
    with pytest.raises(UnsupportedError, match="there is no op 'sine'"):
        call("sine", 1)
    with pytest.raises(ValueError, match="the op 'relu' exists already"):
        register_op(row_of("relu"))


def test_a_domain_is_plain_by_default():
    assert Domain() == Domain(-2.0, 2.0, (), 0.05, None, None, True, True)
