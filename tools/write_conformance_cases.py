"""Writes the cases of netcl-conformance: operands, attributes, results and gradients of the functions of netcl.ops.

    python tools/write_conformance_cases.py

Operands come from the domains of the op table, in float32; results from the row's reference in NumPy, in float64, else
from NumPy's engine in float64; gradients are central differences of the results. Prints what has no case.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from monorepo import ROOT

import netcl.ops
from netcl.core.engine.registry import cpu_engine
from netcl.core.errors import NetclError
from netcl.core.ops_table.dispatch import TABLE, call_row
from netcl.core.tensor import Tensor
from netcl.core.testing.conformance import Case, expected, op_cases, relative_error, rounded, run_case

FOLDER = ROOT / "alternatives/netcl-conformance/src/netcl_conformance/data"
MOST_ELEMENTS = 700
MOST_CASES = 4
MOST_DIFFERENCES = 700
STEP = 1e-5
Array = np.ndarray[Any, Any]


class Pool:
    """All arrays, concatenated by dtype."""

    def __init__(self) -> None:
        self.parts: dict[str, list[Array]] = {}
        self.sizes: dict[str, int] = {}
        self.known: dict[tuple[str, bytes], int] = {}

    def add(self, array: Array) -> list[Any]:
        """Returns the place of an array: its dtype, the dtype that it is stored in, the offset and the shape."""
        store = {"f": "float32", "b": "bool"}.get(array.dtype.kind, "int64")
        flat = np.ascontiguousarray(array).reshape(-1).astype(store)
        key = store, flat.tobytes()
        if key not in self.known:
            self.known[key] = self.sizes.get(store, 0)
            self.parts.setdefault(store, []).append(flat)
            self.sizes[store] = self.known[key] + flat.size
        return [str(array.dtype), store, self.known[key], list(array.shape)]


def encoded(value: Any, pool: Pool) -> Any:
    """Returns a value as JSON; TypeError if it cannot be written."""
    if isinstance(value, np.ndarray):
        return {"array": pool.add(value)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return {"tuple": [encoded(item, pool) for item in value]}
    if isinstance(value, list):
        return [encoded(item, pool) for item in value]
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"cannot write a {type(value).__name__}")


def floats(operands: Sequence[Any]) -> list[Array]:
    """Returns the floating arrays among operands, also in lists."""
    each = [array for value in operands for array in (value if isinstance(value, list) else [value])]
    return [array for array in each if isinstance(array, np.ndarray) and array.dtype.kind == "f"]


def size_of(case: Case) -> int:
    """Returns the number of elements of the operands."""
    each = [array for value in case.operands for array in (value if isinstance(value, list) else [value])]
    return sum(array.size for array in each if isinstance(array, np.ndarray))


def chosen(name: str) -> list[Case]:
    """Returns a few of the cases of a row, of different kinds, small ones."""
    cases = list(op_cases(name))
    small = [case for case in cases if size_of(case) <= MOST_ELEMENTS] or cases[:1]
    step = max(1, -(-len(small) // MOST_CASES))
    return small[::step]


def weights(shape: tuple[int, ...]) -> Array:
    """Returns the gradient of the result: numbers of both signs, none near 0."""
    count = int(np.prod(shape))
    return np.asarray((np.cos(np.arange(count) * 1.7) + 1.5) * np.where(np.arange(count) % 3 == 1, -1, 1)).reshape(
        shape
    )


def first_floating(results: Sequence[Array]) -> int | None:
    """Returns the position of the first floating result."""
    return next((i for i, result in enumerate(results) if result.dtype.kind == "f"), None)


def differences(name: str, case: Case) -> list[Array] | None:
    """Returns the gradients of the floating operands by central differences; None if there is no floating result."""
    operands = tuple(rounded(operand, "float32") for operand in case.operands)
    leaves = floats(operands)
    position = first_floating(expected(name, Case(operands, case.attributes)))
    if position is None:
        return None

    def loss() -> float:
        result = expected(name, Case(operands, case.attributes), "float64")[position]
        return float((np.asarray(result, np.float64) * weights(result.shape)).sum())

    gradients = []
    for leaf in leaves:
        gradient = np.zeros(leaf.shape)
        flat, out = leaf.reshape(-1), gradient.reshape(-1)
        assert flat.base is not None or flat is leaf  # a view, so that the loss sees the change
        for i in range(flat.size):
            kept = flat[i]
            step = STEP * max(1.0, abs(kept))
            flat[i] = kept + step
            above = loss()
            flat[i] = kept - step
            below = loss()
            flat[i] = kept
            out[i] = (above - below) / (2 * step)
        gradients.append(gradient)
    return gradients


def by_backward(name: str, case: Case) -> list[Array | None]:
    """Returns the gradients of the floating operands by netcl-autograd in float64."""
    leaves: list[Tensor] = []

    def put(value: Any) -> Any:
        if isinstance(value, list):
            return [put(item) for item in value]
        if not isinstance(value, np.ndarray):
            return value
        if value.dtype.kind != "f":
            return Tensor.from_host(cpu_engine().queue, value)
        leaves.append(Tensor.from_host(cpu_engine().queue, value, "float64", requires_grad=True))
        return leaves[-1]

    operands = tuple(put(rounded(operand, "float32")) for operand in case.operands)
    result = call_row(TABLE[name], operands, dict(case.attributes), record=True)
    results = result if isinstance(result, (tuple, list)) else [result]
    output = next((candidate for candidate in results if "float" in candidate.dtype), None)
    if output is None or not output.requires_grad:
        return [None] * len(leaves)
    output.backward(Tensor.from_host(cpu_engine().queue, weights(output.shape), "float64"))
    return [None if leaf.grad is None else leaf.grad.numpy() for leaf in leaves]


def gradient_case(name: str, cases: Sequence[Case], say: Callable[[str], None]) -> tuple[Case, list[Any]] | None:
    """Returns the smallest case with a gradient, and the gradients, None for an operand without one."""
    usable = [case for case in cases if 0 < sum(leaf.size for leaf in floats(case.operands)) <= MOST_DIFFERENCES]

    # The smallest that is no special case of few elements, or of none in one operand.
    def order(case: Case) -> tuple[bool, int]:
        return size_of(case) < 6 or any(leaf.size == 0 for leaf in floats(case.operands)), size_of(case)

    for case in sorted(usable, key=order):
        try:
            gradients = by_backward(name, case)
            if all(gradient is None for gradient in gradients):
                continue
            wanted = differences(name, case)
        except (NetclError, RuntimeError, ValueError, TypeError, IndexError, ZeroDivisionError) as error:
            say(f"{name}: no gradient: {type(error).__name__}: {error}"[:150])
            continue
        if wanted is None:
            continue
        worst = max(
            float(np.max(abs(a - b) / (1 + abs(b)), initial=0)) for a, b in zip(gradients, wanted) if a is not None
        )
        if not worst < 1e-5:
            say(f"{name}: backward and differences differ by {worst:.1e}")
            return None
        return case, [None if mine is None else theirs for mine, theirs in zip(gradients, wanted)]
    return None


def main() -> int:
    """Writes cases.json and cases.npz."""
    pool = Pool()
    content: dict[str, Any] = {}
    without, no_gradient = [], []
    for name in sorted(netcl.ops.__all__):
        row = getattr(getattr(netcl.ops, name), "row", None)
        if row is None or row.name != name:
            continue
        cases = chosen(name)
        written = []
        for case in cases:
            try:
                results = run_case(name, case, cpu_engine())
                wanted = expected(name, case)
                entry = {
                    "operands": [encoded(rounded(array, "float32"), pool) for array in case.operands],
                    "attributes": {key: encoded(value, pool) for key, value in case.attributes.items()},
                    "results": [[got.dtype, pool.add(np.asarray(want))] for got, want in zip(results, wanted)],
                }
                for got, want in zip(results, wanted):
                    if not relative_error(got.numpy(), want, got.dtype) < 1e-4:
                        raise ValueError("a result differs from its reference")
            except (TypeError, ValueError) as error:
                print(f"{name}: left out: {error}"[:150], file=sys.stderr)
                continue
            written.append(entry)
        if not written:
            without.append(name)
            continue
        content[name] = {"cases": written}
        small = [case for case in op_cases(name) if size_of(case) <= MOST_ELEMENTS]
        checked = gradient_case(name, small, lambda text: print(text, file=sys.stderr))
        if checked is None:
            no_gradient.append(name)
            continue
        case, gradients = checked
        content[name]["gradient"] = {
            "operands": [encoded(rounded(array, "float32"), pool) for array in case.operands],
            "attributes": {key: encoded(value, pool) for key, value in case.attributes.items()},
            "gradients": [None if array is None else pool.add(array) for array in gradients],
        }
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, separators=(",", ":"), sort_keys=True)
    (FOLDER / "cases.json").write_text(text.replace('"},"', '"},\n"') + "\n", encoding="utf-8")
    with open(FOLDER / "cases.npz", "wb") as file:
        np.savez_compressed(file, **{name: np.concatenate(parts) for name, parts in sorted(pool.parts.items())})
    print(f"{len(content)} functions; sizes {pool.sizes}")
    print(f"without cases: {' '.join(without)}")
    print(f"without gradient: {' '.join(no_gradient)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
