"""Arguments that PyTorch refuses are refused here too, with an error that is the class of PyTorch's; old forms work."""

from __future__ import annotations

import pytest

import netcl as nc

REFUSED = [
    (RuntimeError, "two vectors", lambda: nc.zeros(2, 2).dot(nc.zeros(2))),
    (RuntimeError, "two vectors", lambda: nc.dot(nc.zeros(2, 2), nc.zeros(2, 2))),
    (RuntimeError, "two vectors", lambda: nc.vdot(nc.zeros(2, 2), nc.zeros(2))),
    (RuntimeError, "tensor_split", lambda: nc.zeros(3, 2).vsplit(2)),
    (RuntimeError, "tensor_split", lambda: nc.hsplit(nc.zeros(2, 3), 2)),
    (RuntimeError, "tensor_split", lambda: nc.dsplit(nc.zeros(2, 2, 3), 2)),
    (RuntimeError, "at least 2 axes", lambda: nc.zeros(4).vsplit(2)),
    (RuntimeError, "int64", lambda: nc.tensor_split(nc.zeros(3), nc.tensor([1.0]))),
    (RuntimeError, "without axes as start", lambda: nc.zeros(3).narrow(0, nc.tensor([1]), 1)),
    (RuntimeError, "without axes as start", lambda: nc.narrow(nc.zeros(3), 0, nc.tensor(1.0), 1)),
    (RuntimeError, "as many axes", lambda: nc.tensor(1.0).index_add(0, nc.tensor([0, 0]), nc.tensor([1.0, 2.0]))),
    (RuntimeError, "as many axes", lambda: nc.tensor([1.0]).index_add(0, nc.tensor([0]), nc.tensor(1.0))),
    (RuntimeError, "0 or more", lambda: nc.one_hot(nc.tensor([-1]))),
    (RuntimeError, "0 classes", lambda: nc.one_hot(nc.tensor([1]), 0)),
    (RuntimeError, "no index", lambda: nc.one_hot(nc.zeros(0, dtype="int64"))),
    (RuntimeError, "sigma above 0", lambda: nc.zeros(2).cauchy_(0, -1)),
    (RuntimeError, "std above 0", lambda: nc.zeros(2).log_normal_(0, -1)),
    (RuntimeError, "rate above 0", lambda: nc.zeros(2).exponential_(-1)),
    (RuntimeError, "std of 0 or more", lambda: nc.normal(nc.zeros(2), -1.0)),
    (RuntimeError, "0 or more", lambda: nc.cdist(nc.ones(2, 2), nc.ones(2, 2), p=-1)),
    (RuntimeError, "0 or more", lambda: nc.pdist(nc.ones(2, 2), p=-1)),
    (RuntimeError, "exponent of 0 or more", lambda: nc.tensor([2]) ** -1),
    (IndexError, "whole numbers as indices", lambda: nc.zeros(3)[nc.tensor([0.5])]),
    (IndexError, "no elements", lambda: nc.zeros(2, 0).kthvalue(1)),
    (IndexError, "no elements", lambda: nc.zeros(0).mode()),
    (IndexError, "no elements", lambda: nc.zeros(2, 0).median(1)),
    (TypeError, "whole", lambda: nc.zeros(1.5)),
    (TypeError, "whole", lambda: nc.full((2, 1.5), 1)),
    (TypeError, "new_zeros", lambda: nc.zeros(2).new_zeros(1.5)),
    (TypeError, "reshape", lambda: nc.zeros(2).reshape(2.0)),
]


def test_arguments_that_pytorch_refuses():
    for kind, text, call in REFUSED:
        with pytest.raises(kind, match=text):
            call()


def test_errors_keep_the_classes_that_they_had():
    for kind, call in (
        (ValueError, lambda: nc.tensor([2]) ** -1),
        (ValueError, lambda: nc.zeros(2).exponential_(-1)),
        (ValueError, lambda: nc.zeros(1.5)),
        (TypeError, lambda: nc.zeros(3)[nc.tensor([0.5])]),
        (ValueError, lambda: nc.zeros(0).mode()),
    ):
        with pytest.raises(kind):
            call()


def test_what_is_near_to_it_works():
    assert [part.tolist() for part in nc.zeros(4, 2).vsplit(2)] == [[[0, 0], [0, 0]]] * 2
    assert [part.shape[0] for part in nc.zeros(3).hsplit([1])] == [1, 2]
    assert nc.zeros(3).narrow(0, nc.tensor(1), 2).shape == (2,)
    assert nc.tensor([1.0, 2.0]).dot(nc.tensor([3.0, 4.0])).item() == 11
    assert nc.ops.dot(nc.ones(2, 2), nc.ones(2)).tolist() == [2, 2]
    assert nc.one_hot(nc.zeros(0, dtype="int64"), 3).shape == (0, 3)


def test_numbers_in_front_of_operands_are_taken_with_a_warning():
    x, a, b = nc.ones(2, 2), nc.ones(2, 3), nc.ones(3, 2)
    row, v = nc.ones(3), nc.ones(2)
    for call, wanted in (
        (lambda: nc.add(x, 2, x), 3),
        (lambda: x.sub(2, x), -1),
        (lambda: x.clone().add_(2.5, x), 3.5),
        (lambda: nc.addcmul(x, 2, x, x), 3),
        (lambda: x.clone().addcdiv_(2, x, x), 3),
        (lambda: nc.addmm(1, x, 2, a, b), 7),
        (lambda: x.addmm(2, a, b), 5),
        (lambda: x.clone().addmm_(1, 2, a, b), 7),
        (lambda: nc.addmv(1, v, 2, a, row), 7),
        (lambda: nc.addr(1, x, 2, v, v), 3),
        (lambda: nc.addbmm(1, x, 2, a[None], b[None]), 7),
        (lambda: nc.baddbmm(2, x[None], a[None], b[None]), 5),
    ):
        with pytest.warns(UserWarning, match="in front of operands"):
            result = call()
        assert result.reshape(-1).tolist() == [wanted] * result.numel()
    for wrong in (lambda: nc.add(x, x, 2), lambda: x.addcmul(x, x, 2), lambda: x.add(2, 3), lambda: nc.add(2, x, x)):
        with pytest.raises(TypeError):
            wrong()
