"""The device "meta": shapes and dtypes of results without memory."""

from __future__ import annotations

import numpy as np
import pytest

import netcl as nc
from netcl.core.errors import NoDataError


def test_ops_give_shapes_and_dtypes_without_memory() -> None:
    x = nc.empty((1 << 20, 1 << 20), device="meta")
    y = (x + 1).T
    assert (y.shape, str(y.dtype), y.device.type, y.is_meta) == (x.shape, "float32", "meta", True)
    small = nc.empty((2, 3), device="meta")
    shapes = {
        "matmul": (small @ small.T, (2, 2)),
        "reshape": (small.reshape(6), (6,)),
        "slice": (small[:, 1:], (2, 2)),
        "sum": (small.sum(0), (3,)),
        "topk": (small.topk(2).values, (2, 2)),
        "cat": (nc.cat([small, small]), (4, 3)),
        "where": (nc.where(small > 0, small, 0.0), (2, 3)),
        "einsum": (nc.einsum("ij,kj->ik", small, small), (2, 2)),
        "cumsum": (small.cumsum(0), (2, 3)),
        "gather": (nc.gather(small, 1, nc.zeros((2, 1), dtype="int64", device="meta")), (2, 1)),
        "softmax": (nc.softmax(small, -1), (2, 3)),
        "rand": (nc.rand(4, 5, device="meta"), (4, 5)),
    }
    assert {name: result.shape for name, (result, _) in shapes.items()} == {n: s for n, (_, s) in shapes.items()}
    assert all(result.is_meta for result, _ in shapes.values())
    assert (small > 0).dtype == "bool"
    assert small.argmax().dtype == "int64"


@pytest.mark.parametrize(
    "read", [lambda x: x.numpy(), lambda x: x.item(), bool, lambda x: x.to("cpu"), lambda x: nc.nonzero(x)]
)
def test_there_is_nothing_to_read(read) -> None:
    with pytest.raises(NoDataError, match="has no data to read"):
        read(nc.empty((), device="meta") if read is bool else nc.empty((1,), device="meta"))


def test_tensors_go_to_meta_and_are_written_there() -> None:
    x = nc.tensor([1.0, 2.0]).to("meta")
    x.add_(1)
    x[0] = 3
    assert repr(x) == "Tensor(..., size=(2,), dtype=float32, device='meta')"
    with pytest.raises(RuntimeError, match="live on"):
        x + nc.ones(2)
    with nc.device("meta"):
        assert nc.tensor(np.arange(3)).is_meta
    assert nc.device("meta") == x.device
    assert nc.device("meta") != nc.ones(2).device


def test_factorizations_and_draws_have_shapes_too() -> None:
    square, tall, weights = (nc.empty(shape, device="meta") for shape in ((2, 3, 3), (4, 3), (2, 5)))
    shapes = [
        ((nc.linalg.inv(square), nc.linalg.cholesky(square), nc.linalg.solve(square, square)), (2, 3, 3)),
        ((nc.linalg.det(square), nc.linalg.slogdet(square)[1], nc.linalg.matrix_rank(square)), (2,)),
        ((nc.linalg.eigh(square)[0], nc.linalg.svdvals(square)), (2, 3)),
        ((nc.linalg.qr(tall)[0], nc.linalg.svd(tall, False)[0], nc.linalg.lu_factor(tall)[0]), (4, 3)),
        ((nc.linalg.lu_solve(*nc.linalg.lu_factor(square), square),), (2, 3, 3)),
        ((nc.multinomial(weights, 3), weights.multinomial(3, True)), (2, 3)),
    ]
    for results, shape in shapes:
        assert [(result.shape, result.is_meta) for result in results] == [(shape, True)] * len(results)


def test_a_number_of_the_cpu_computes_with_tensors_of_another_device() -> None:
    x, number = nc.empty((2, 3), device="meta"), nc.tensor(2.0, device="cpu")
    made = (x * number, number - x, nc.where(x > 0, number, x), x.mul_(number), nc.add(x, number, alpha=2), x == number)
    assert {(result.shape, result.is_meta) for result in made} == {((2, 3), True)}
    for call in (lambda: x + number.reshape(1), lambda: nc.cat([x, number.reshape(1, 1)]), lambda: x[0] @ number):
        with pytest.raises(RuntimeError, match="live on"):
            call()


def test_a_number_of_the_cpu_and_its_values(handle) -> None:
    x, number = nc.tensor([1.0, 2.0], device=handle), nc.tensor(2.0, device="cpu")
    assert (x * number).tolist() == [2.0, 4.0]
    assert (number / x).device == x.device
