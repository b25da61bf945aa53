"""Level front: PyTorch's further names, as programs write them, and the words for wrong ones."""

from __future__ import annotations

import importlib

import numpy as np

from netcl.core import Tensor, errors
from netcl_conformance.checks.tensor import raises
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


@check("front")
def functions_name_the_argument_that_a_keyword_means() -> None:
    def scaled(x: float, factor: float = 1.0) -> float:
        return x * factor

    module = {"__name__": __name__, "scaled": scaled}
    errors.from_here(module)
    message = raises(errors.UnsupportedError, module["scaled"], 1.0, factr=2.0)
    assert "write factor=..." in message, f"names the argument that is meant, not {message!r}"
