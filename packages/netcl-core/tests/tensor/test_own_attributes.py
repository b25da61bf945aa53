"""Attributes that the user sets on a tensor: they belong to that object, and copies keep them as in PyTorch."""

from __future__ import annotations

import copy
import pickle

import pytest

import netcl as nc


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "deepcopy", "pickle"]
)
def test_copies_keep_attributes(engine, copied):
    x = nc.ones(2, 3)
    x.tags = ["weight"]
    y = copied(x)
    assert y.tags == ["weight"]
    assert (y.tags is x.tags) == (copied is copy.copy)
    assert y.numpy().tolist() == x.numpy().tolist()


def test_results_and_views_have_no_attributes_of_their_operands(engine):
    x = nc.ones(2, 3)
    x.tag = 1
    for y in (x.detach(), x[0], x + x, x.reshape(3, 2)):
        assert not hasattr(y, "tag")
    del x.tag
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'tag'"):
        getattr(x, "tag")  # noqa: B009
