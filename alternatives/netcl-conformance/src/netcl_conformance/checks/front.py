"""Level front: PyTorch's further names, as programs write them."""

from __future__ import annotations

import importlib

import numpy as np

from netcl.core import Tensor
from netcl_conformance.registry import check
from netcl_conformance.values import assert_close, tensor

MODULES = {"linalg": "norm solve svd", "special": "expit logsumexp", "sparse": "mm softmax sum"}


@check("front")
def submodules_are_named_after_pytorchs() -> None:
    for module, names in MODULES.items():
        found = importlib.import_module(f"netcl.{module}")
        absent = [name for name in names.split() if not callable(getattr(found, name, None))]
        assert not absent, f"netcl.{module} has no {', '.join(absent)}"


@check("front")
def tensors_have_pytorchs_methods() -> None:
    x = tensor(np.array([-1.0, 0.5, 3.0]))
    assert x.clamp_max(1.0).tolist() == [-1.0, 0.5, 1.0]
    assert x.is_floating_point() is True
    assert isinstance(x.new_zeros(2), Tensor)


@check("front")
def sparse_tensors_have_operators() -> None:
    dense = np.array([[0.0, 2.0], [3.0, 0.0]], np.float32)
    sparse = tensor(dense).to_sparse()
    assert_close(sparse.T.to_dense(), dense.T)
    assert_close(sparse @ tensor(np.eye(2, dtype=np.float32)), dense)
