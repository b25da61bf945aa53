"""Devices of the suite, and the gradient of any row of the op table on any of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.dtypes import is_floating
from netcl.core.ops_table.dispatch import call_row, row_of
from netcl.core.testing import Case
from netcl.core.testing.pytest_plugin import handle as handle
from netcl.core.testing.pytest_plugin import numpy_device as numpy_device


class Placed(NamedTuple):
    """A case on a device: the row's name, operands as tensors, the floating ones among them, attributes."""

    name: str
    operands: tuple[Any, ...]
    leaves: list[Tensor]
    attributes: dict[str, Any]

    def run(self) -> list[Tensor]:
        """Returns the floating results, recorded."""
        result = call_row(row_of(self.name), self.operands, dict(self.attributes), True)
        return [one for one in (result if isinstance(result, tuple) else (result,)) if is_floating(one.dtype)]


@pytest.fixture
def place() -> Callable[..., Placed]:
    """Returns ``place(name, case, queue, dtype)``: a case of the op table on a device, all floating operands requiring
    grad.
    """

    def placed(name: str, case: Case, queue: Any, dtype: str = "float64") -> Placed:
        leaves: list[Tensor] = []

        def put(operand: Any) -> Any:
            if isinstance(operand, list):
                return [put(one) for one in operand]
            if not isinstance(operand, (np.ndarray, np.floating)):
                return operand
            array = np.asarray(operand)
            if array.dtype.kind != "f":
                return Tensor.from_host(queue, array)
            leaves.append(Tensor.from_host(queue, array, dtype, requires_grad=True))
            return leaves[-1]

        return Placed(name, tuple(put(operand) for operand in case.operands), leaves, case.attributes)

    return placed


@pytest.fixture
def leaf() -> Callable[..., ag.Parameter]:
    """Returns ``leaf(shape)``: a Parameter of standard normal numbers on the active device, the same in each test."""
    rng = np.random.default_rng(0)

    def make(*shape: int, dtype: str = "float32") -> ag.Parameter:
        return ag.Parameter(Tensor.from_host(rng.standard_normal(shape), dtype))

    return make
