"""ONNX's own tests of the operators that are imported."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl.core.dtypes import SUPPORTED
from netcl.core.errors import UnsupportedError
from netcl.core.testing import TOLERANCE
from netcl.io import import_onnx
from netcl.io.onnx.model import OPERATORS_OF_IMPORT

pytest.importorskip("onnx", reason="needs the optional package onnx")
from onnx.backend.test.loader import load_model_tests

# Unsupported forms of operators; all others have to pass.
REFUSED = (
    "dilation is not",
    "training_mode is not",
    "batch_dims is not",
    "the second output is not",
    "axes, antialias or exclude_outside is not",
    "nearest with ",
    "linear with ",
    "cubic with ",
    "the reduction m",
    "a size in bfloat16 is not",
)
LEAST = 980


def arrays(values: Any) -> bool:
    return all(isinstance(v, (np.ndarray, np.generic)) and v.dtype.name in SUPPORTED for v in values)


def cases() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = [case for case in load_model_tests(kind="node") if case.model is not None]
    known = {*OPERATORS_OF_IMPORT}
    return [
        case
        for case in loaded
        if {node.op_type for node in case.model.graph.node} <= known
        and not any(node.domain for node in case.model.graph.node)
        and all(arrays([*inputs, *outputs]) for inputs, outputs in case.data_sets)
    ]


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")
def test_the_nodes_of_onnx(tmp_path: Path) -> None:
    passed, refused, failed = 0, [], []
    for case in cases():
        path = tmp_path / "m.onnx"
        path.write_bytes(case.model.SerializeToString())
        try:
            model = import_onnx(path)
            for inputs, outputs in case.data_sets:
                found = model(*inputs)
                compare(case, found if isinstance(found, tuple) else (found,), outputs)
            passed += 1
        except UnsupportedError as error:
            refused.append((case.name, str(error)))
        except AssertionError as error:
            failed.append((case.name, str(error)[:300]))
    print(f"{passed} of ONNX's node tests pass, {len(refused)} are refused by name, {len(failed)} fail")
    assert not failed
    assert all(any(reason in message for reason in REFUSED) for _, message in refused), refused
    assert passed >= LEAST


def compare(case: Any, found: Any, expected: Any) -> None:
    assert len(found) == len(expected)
    for tensor, wanted in zip(found, expected):
        dtype = wanted.dtype.name
        assert (tensor.shape, tensor.dtype) == (wanted.shape, dtype)
        rtol, atol = TOLERANCE.get(dtype, (0, 0)) if dtype in ("float16", "bfloat16") else (case.rtol, case.atol)
        host = tensor.to_host()
        np.testing.assert_allclose(host, wanted.astype(host.dtype), rtol=rtol, atol=max(atol, 1e-6))
