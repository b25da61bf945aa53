"""Writes docs/reference/coverage.md from the op table: gradients, dtypes, backends and tested drivers of every op."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any

import numpy as np
from monorepo import ROOT

from netcl.autograd.rules import RULES
from netcl.core.dtypes import SUPPORTED, is_floating
from netcl.core.engine.registry import cpu_engine
from netcl.core.ops_table.dispatch import TABLE, OpRow
from netcl.core.testing import op_cases, refusal
from netcl.core.testing.op_families import families, family_of

HEAD = """# Coverage

Written by `python tools/document_coverage.py` from the op table.

| Column | |
|-|-|
| Gradient | *derived* from the op's expression, by a *rule*, *through* the ops that it is made of, or none (-) |
| Second | whether the gradient is differentiated and tested in turn |
| Dtypes | what its floating operands may be instead, tried: *all*, *floats* ({floats}), *numbers* (all but bool) |
| Backends | what computes it: OpenCL kernels, NumPy |
| Tested | against NumPy in float64 on NumPy (N), PoCL (P), Intel's CPU runtime (I), in the simulator oclgrind (O) |

Any other dtype, and float64 on a device without it, raises UnsupportedError with the op, the dtype and the device.

"""
FLOATS = tuple(dtype for dtype in SUPPORTED if is_floating(dtype))
NAMED = {SUPPORTED: "all", FLOATS: "floats", tuple(d for d in SUPPORTED if d != "bool"): "numbers"}
# Their values have no reference; tests of their own hold them to bits, statistics and NumPy's assignment.
BY_HAND = ("rand", "randn", "randint", "randperm", "bernoulli", "dropout", "dropout_mask", "setitem")


def dtypes_of(name: str) -> str:
    """Returns the dtypes that the op takes."""
    operands = [array for case in op_cases(name) for value in case.operands for array in _listed(value)]
    if not any(isinstance(array, np.ndarray) and array.dtype.kind == "f" for array in operands):
        return "whole numbers"
    engine = cpu_engine()
    taken = []
    for dtype in SUPPORTED:
        try:
            refused = refusal(name, dtype, engine)
        except IndexError:  # class ids that are floats in the sample and no ids any more in this dtype
            refused = None
        if refused is None:
            taken.append(dtype)
    return NAMED.get(tuple(taken), ", ".join(taken))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def gradient_of(row: OpRow) -> tuple[str, str]:
    """Returns the origin of the gradient, and whether a second one exists."""
    if not row.domain.gradient:  # of an output alone, say, which tests of its own see to
        return "rule" if row.name in RULES else "-", "-"
    kind = "derived" if row.expression is not None else "through" if row.composite is not None else "rule"
    if kind == "rule" and row.name not in RULES:
        return "-", "-"
    return kind, "yes" if row.domain.second else "-"


def simulated() -> set[str]:
    """Returns the ops with kernels that run under oclgrind."""
    spec = importlib.util.spec_from_file_location("simulator_kernels", ROOT / "checks/simulator/kernels.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name for name, _, _ in module.from_the_table()}


def lines() -> Iterator[str]:
    """Yields the tables, one per family, and the totals."""
    for module in ("netcl.ops", "netcl.autograd"):  # each adds its rows
        importlib.import_module(module)
    public = {name: row for name, row in TABLE.items() if not name.startswith("_")}
    in_simulator = simulated()
    counts = {"derived": 0, "rule": 0, "through": 0, "-": 0}
    second = 0
    tables: list[str] = []
    for family in families():
        tables += [f"\n## {family}\n\n", "| Op | Gradient | Second | Dtypes | Backends | Tested |\n|-|-|-|-|-|-|\n"]
        for name, row in sorted(public.items()):
            if family_of(row) != family:
                continue
            kind, twice = gradient_of(row)
            counts[kind] += 1
            second += twice == "yes"
            by_hand = name in BY_HAND or next(op_cases(name), None) is None
            dtypes = "see its text" if by_hand else dtypes_of(name)
            tested = "N P I" + (" O" if name in in_simulator else "")
            tables.append(f"| `{name}` | {kind} | {twice} | {dtypes} | OpenCL, NumPy | {tested} |\n")
    yield (
        f"{len(public)} ops: {counts['derived']} gradients derived, {counts['rule']} by rules, {counts['through']} "
        f"through other ops, {counts['-']} ops without; {second} second gradients; {len(in_simulator)} ops in the "
        "simulator.\n"
    )
    yield from tables


def page() -> str:
    """Returns the reference page as text."""
    return HEAD.format(floats=", ".join(FLOATS)) + "".join(lines())


if __name__ == "__main__":
    (ROOT / "docs/reference/coverage.md").write_text(page(), encoding="utf-8")
