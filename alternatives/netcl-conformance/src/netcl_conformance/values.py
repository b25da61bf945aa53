"""Values and gradients of the functions of netcl.ops against stored results of their NumPy references."""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from netcl_conformance.contract import DATA, contract
from netcl_conformance.registry import LeftOut

__all__ = ["assert_close", "cases_of", "gradient_of", "names_of_level", "results_of", "tensor", "values_of"]

Array = np.ndarray[Any, Any]

# Relative and absolute difference, of numbers of the size of the largest expected one for the absolute part.
TOLERANCE = {"float32": (2e-5, 2e-6), "float16": (1e-2, 2e-3), "bfloat16": (3e-2, 2e-2), "float64": (2e-5, 2e-6)}
# Of gradients, which are compared with differences of a step of 1e-5, rounded to float32.
OF_GRADIENTS = (1e-3, 1e-4)


@cache
def _cases() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((DATA / "cases.json").read_text(encoding="utf-8"))
    return content


@cache
def _arrays() -> dict[str, Array]:
    with np.load(DATA / "cases.npz") as stored:
        return {name: stored[name] for name in stored.files}


def names() -> frozenset[str]:
    """The functions of netcl.ops that have cases."""
    return frozenset(_cases())


def names_of_level(level: str) -> tuple[str, ...]:
    """The functions of ops-basic or ops-full that have cases."""
    basic = contract().basic
    return tuple(name for name in _cases() if (name in basic) == (level == "ops-basic"))


def _array(place: Sequence[Any]) -> Array:
    dtype, store, offset, shape = place
    count = int(np.prod(shape))
    return _arrays()[store][offset : offset + count].reshape(shape).astype(dtype)


def _decoded(value: Any) -> Any:
    """A stored value; arrays as NumPy arrays."""
    if isinstance(value, list):
        return [_decoded(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return _array(value["array"])
    if "tuple" in value:
        return tuple(_decoded(one) for one in value["tuple"])
    if "slice" in value:
        return slice(*value["slice"])
    return Ellipsis


def tensor(array: Any, dtype: str | None = None, **options: Any) -> Any:
    """A tensor of an array on the active device."""
    core = importlib.import_module("netcl.core")
    return core.Tensor.from_host(np.asarray(array), dtype=dtype, **options)


def _placed(value: Any, leaves: list[Any] | None = None, dtype: str = "float32") -> Any:
    """Operands as tensors; floating ones are entered in ``leaves``, if given, and require grad."""
    if isinstance(value, list):
        return [_placed(one, leaves, dtype) for one in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind != "f":
        return tensor(value)
    made = tensor(value, dtype, requires_grad=leaves is not None)
    if leaves is not None:
        leaves.append(made)
    return made


def assert_close(found: Any, wanted: Any, dtype: str = "float32", tolerance: tuple[float, float] | None = None) -> None:
    """Raises AssertionError unless a result has the shape, the dtype and, within the tolerance, the values expected;
    NaN and infinities at the same places.
    """
    wanted = np.asarray(wanted)
    assert found.dtype == dtype, f"dtype {found.dtype}, expected {dtype}"
    assert tuple(found.shape) == wanted.shape, f"shape {tuple(found.shape)}, expected {wanted.shape}"
    values = found.numpy()
    assert values.shape == wanted.shape, f"numpy() has shape {values.shape}, expected {wanted.shape}"
    if dtype not in TOLERANCE:
        np.testing.assert_array_equal(values, wanted.astype(values.dtype))
        return
    relative, absolute = tolerance or TOLERANCE[dtype]
    finite = np.abs(wanted[np.isfinite(wanted)].astype(np.float64))
    absolute *= max(1.0, float(finite.max(initial=0.0)))
    np.testing.assert_allclose(values.astype(np.float64), wanted.astype(np.float64), relative, absolute)


def _call(name: str, operands: list[Any], attributes: dict[str, Any], record: bool) -> tuple[Any, ...]:
    if record:
        function = getattr(importlib.import_module("netcl.autograd"), name)
    else:
        function = getattr(importlib.import_module("netcl.ops"), name, None)
        if function is None:  # a row of a package above
            function = functools.partial(importlib.import_module("netcl.core.ops_table.dispatch").call, name)
    result = function(*operands, **attributes)
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def cases_of(name: str) -> Iterator[tuple[list[Any], dict[str, Any], list[Array]]]:
    """The stored cases of a function: operands as arrays, attributes, results."""
    for case in _cases()[name]["cases"]:
        attributes = {key: _decoded(value) for key, value in case["attributes"].items()}
        yield [_decoded(one) for one in case["operands"]], attributes, [_array(place) for _, place in case["results"]]


def results_of(name: str, operands: Sequence[Any], attributes: dict[str, Any], dtype: str) -> tuple[Any, ...]:
    """The results of a function for operands given as arrays, floating ones in ``dtype``."""
    return _call(name, [_placed(one, dtype=dtype) for one in operands], attributes, record=False)


def values_of(name: str, dtype: str = "float32") -> None:
    """Raises AssertionError unless a function of netcl.ops gives the stored results for the stored operands."""
    for number, case in enumerate(_cases()[name]["cases"]):
        operands = [_placed(_decoded(one), dtype=dtype) for one in case["operands"]]
        attributes = {key: _decoded(value) for key, value in case["attributes"].items()}
        given = ", ".join(
            str(tuple(getattr(one, "shape", ()))) if hasattr(one, "shape") else repr(one) for one in operands
        )
        try:
            results = _call(name, operands, attributes, record=False)
            assert len(results) == len(case["results"]), f"{len(results)} results, expected {len(case['results'])}"
            for found, (of, place) in zip(results, case["results"]):
                assert_close(found, _array(place), dtype if of == "float32" else of)
        except Exception as error:
            error.args = (f"case {number}, {name}({given}, **{attributes})"[:160] + f": {str(error).strip()}",)
            raise


def weights(shape: tuple[int, ...]) -> Array:
    """The gradient of the result with which the stored gradients were computed."""
    count = int(np.prod(shape))
    return np.asarray((np.cos(np.arange(count) * 1.7) + 1.5) * np.where(np.arange(count) % 3 == 1, -1, 1)).reshape(
        shape
    )


def gradient_of(name: str) -> None:
    """Raises AssertionError unless the gradients of a function are those of differences of its NumPy reference."""
    case = _cases()[name].get("gradient")
    if case is None:
        return
    try:
        importlib.import_module("netcl.autograd")
    except ImportError:
        raise LeftOut("netcl-autograd is not installed") from None
    leaves: list[Any] = []
    operands = [_placed(_decoded(one), leaves) for one in case["operands"]]
    attributes = {key: _decoded(value) for key, value in case["attributes"].items()}
    results = _call(name, operands, attributes, record=True)
    output = next(one for one in results if one.dtype == "float32")
    assert output.requires_grad, "the result does not require grad"
    output.backward(tensor(weights(tuple(output.shape)), "float32"))
    for position, (leaf, place) in enumerate(zip(leaves, case["gradients"])):
        if place is None:
            continue
        assert leaf.grad is not None, f"operand {position} has no gradient"
        assert_close(leaf.grad, _array(place), "float32", OF_GRADIENTS)
