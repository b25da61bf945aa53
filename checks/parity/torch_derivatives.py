"""Which operands of an op get a gradient: the same as in PyTorch, for rows with PyTorch's name and arguments."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import netcl.autograd as ag
from netcl.core import Tensor
from netcl.core.device import device
from netcl.core.errors import UnsupportedError
from netcl.core.ops_table.dispatch import TABLE, call_row
from netcl.core.testing import op_cases

OTHER_NAMES = {"mod": "remainder"}
OTHER_ATTRIBUTES = {"axis": "dim", "keepdims": "keepdim"}
# netcl has a gradient where PyTorch has none, or refuses where PyTorch gives a constant.
# The case of linalg_lu_factor_ex is a singular matrix, whose gradient is refused; PyTorch's is not a number.
DIFFERENT = {"bincount", "histc", "linalg_lu_factor_ex", "poisson", "unique", "unique_consecutive", "zeta"}


def of_torch(name: str) -> Callable[..., Any] | None:
    name = OTHER_NAMES.get(name, name.removeprefix("linalg_"))
    for module in (torch.linalg, torch, torch.nn.functional, torch.special):
        if hasattr(module, name):
            return getattr(module, name)  # type: ignore[no-any-return]
    return None


def case_of(name: str) -> Any:
    """A case of a row with floating operands; None if there is none."""
    for case in op_cases(name):
        if any(
            isinstance(operand, np.ndarray) and operand.dtype.kind == "f" and operand.size for operand in case.operands
        ):
            return case
    return None


def slopes(case: Any, make: Callable[[Any], Any], run: Callable[..., Any], grad: Callable[..., Any]) -> list[str]:
    """For each floating operand ``none`` if its gradient is zero or missing, else ``some``; or ``refused``."""
    leaves: list[Any] = []

    def place(operand: Any) -> Any:
        if isinstance(operand, list):
            return [place(one) for one in operand]
        if not isinstance(operand, np.ndarray):
            return operand
        tensor = make(operand)
        if operand.dtype.kind == "f":
            leaves.append(tensor.requires_grad_())
        return tensor

    result = run(*(place(operand) for operand in case.operands))
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    results = [one for one in results if one.requires_grad]
    if not results:
        return ["none"] * len(leaves)
    try:
        found = grad([(one * one).sum() for one in results], leaves, allow_unused=True)
    except (UnsupportedError, NotImplementedError, RuntimeError):
        return ["refused"] * len(leaves)
    return ["none" if one is None or not one.numpy().any() else "some" for one in found]


def theirs(name: str) -> list[str] | None:
    """PyTorch's; None if it has no such function, or one of other arguments."""
    function, case = of_torch(name), case_of(name)
    if function is None or case is None:
        return None
    attributes = {OTHER_ATTRIBUTES.get(key, key): value for key, value in case.attributes.items()}
    refusals = contextlib.suppress(TypeError, RuntimeError, IndexError, AttributeError, ValueError)
    with refusals, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of functions that are in beta
        return slopes(case, torch.tensor, lambda *given: function(*given, **attributes), torch.autograd.grad)
    return None


THEIRS = {name: found for name in list(TABLE) if (found := theirs(name)) is not None}


def test_the_table_is_long() -> None:
    assert len(THEIRS) > 150
    assert "refused" in THEIRS["floor_divide"]


@pytest.mark.parametrize("name", sorted(set(THEIRS) - DIFFERENT))
def test_the_same_operands_get_a_gradient(name: str) -> None:
    case = case_of(name)

    def run(*operands: Any) -> Any:
        return call_row(TABLE[name], operands, dict(case.attributes), record=True)

    with device("cpu"):
        assert slopes(case, Tensor.from_host, run, ag.grad) == THEIRS[name]
