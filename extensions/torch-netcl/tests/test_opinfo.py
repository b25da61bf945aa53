"""A share of PyTorch's OpInfo samples in each run; ``opinfo.py`` is the command for all."""

from __future__ import annotations

import warnings

import opinfo
import pytest
import torch


@pytest.mark.parametrize("dtype", opinfo.DTYPES)
def test_samples_agree_with_the_cpu(dtype: str) -> None:
    torch.zeros(1, device="ocl")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = opinfo.check((dtype,), limit=2, every=4)[dtype]
    assert outcome.counts["samples"] > 150
    assert outcome.faults == []


def test_the_list_of_exceptions_names_ops_that_exist() -> None:
    names = {op.name for op in opinfo.op_db} | {opinfo.full_name(op) for op in opinfo.op_db}
    listed = [name for part in ("not_compared", "ties", "wide_statistics") for name in opinfo.EXCEPTIONS[part]["names"]]
    listed += [*opinfo.EXCEPTIONS["tolerance"], *opinfo.EXCEPTIONS["known"]]
    assert sorted(set(listed) - names) == []


def test_a_wrong_number_is_noticed() -> None:
    assert opinfo.difference(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]), "float32")
    assert not opinfo.difference(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]), "float32")
    assert "expected" in opinfo.difference(torch.tensor([1]), torch.tensor([1.0]), "float32")
