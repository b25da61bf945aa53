"""Adds a sample to docs/samples/ops.py for each op that has none, made from the samples of its row.

    python tools/docs_site/op_samples.py

The smallest case of the row is rounded to two digits and written as a call; a cell that was changed by hand is kept.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import netcl.autograd  # noqa: F401  (adds its rows)
from docs_site.samples import FOLDER, Sample, read, run
from netcl.core.ops_table.dispatch import TABLE
from netcl.core.testing import op_cases

FILE = FOLDER / "ops.py"
HEAD = '''"""A sample of each op; tools/docs_site/op_samples.py adds samples of new ops."""

from __future__ import annotations

import numpy as np

import netcl as nc
import netcl.autograd as ag

nc.manual_seed(0)

'''
_PREFIX = {"netcl": "nc", "netcl.linalg": "nc.linalg", "netcl.special": "nc.special", "netcl.autograd": "ag"}
_PREFIX["netcl.ops"] = "nc.ops"
_LITERAL = 36  # numbers of an operand that is written out
_SHOWN = 24  # numbers of a result that is printed


def spelled(name: str) -> str:
    """Returns the op as a reader calls it: of the front if it is there."""
    for module, prefix in _PREFIX.items():
        if getattr(getattr(importlib.import_module(module), name, None), "row", None) is TABLE[name]:
            return f"{prefix}.{name}"
    raise LookupError(f"op {name} has no public function")


def literal(value: Any) -> str:
    """Returns an operand as Python: a tensor of rounded numbers, or of random ones if it is large."""
    if isinstance(value, (list, tuple)) and any(isinstance(item, np.ndarray) for item in value):
        return f"[{', '.join(literal(item) for item in value)}]"
    if not isinstance(value, np.ndarray):
        return repr(value)
    if value.size == 0 or (value.size > _LITERAL and value.dtype.kind == "f"):
        return f"nc.randn({', '.join(map(str, value.shape))})"
    numbers = np.round(value, 2) if value.dtype.kind == "f" else value
    kind = "" if value.dtype.kind in "fb" or value.dtype == np.int64 else f', dtype="{value.dtype}"'
    return f"nc.tensor({numbers.tolist()}{kind})"


def variants(name: str) -> list[str]:
    """Returns calls of an op, the one with the fewest numbers first."""
    row = TABLE[name]
    calls = []
    for case in op_cases(name):
        operands = list(case.operands)
        if isinstance(row.expression, str):  # elementwise: three numbers show as much as a table of them
            operands = [operand.ravel()[:3] if isinstance(operand, np.ndarray) else operand for operand in operands]
        arrays = [operand for operand in operands if isinstance(operand, np.ndarray)]
        if any(operand.size == 0 for operand in arrays):
            continue
        # A single number shows little.
        size = sum(operand.size if operand.size > 1 else 30 for operand in arrays)
        listed = [p for p in row.signature.parameters if p not in ("space",)]
        lines, call = [], []
        for at, operand in enumerate(operands):
            text = literal(operand)
            if len(text) > 25 and at < len(listed):
                lines.append(f"{listed[at]} = {text}")
                text = listed[at]
            call.append(text)
        call += [f"{key}={literal(value)}" for key, value in case.attributes.items()]
        calls.append((size, len(calls), "\n".join([*lines, f"{spelled(name)}({', '.join(call)})"])))
    return [text for _, _, text in sorted(calls)]


def made(name: str) -> str | None:
    """Returns the code of a sample that runs, or None if none of the row's cases can be written."""
    for code in variants(name)[:8]:
        *before, call = code.split("\n")
        try:
            sample = Sample(name, code, HEAD)
            printed = run(sample)
        except Exception as error:  # noqa: BLE001  (the next case may do)
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        if printed.count(",") > _SHOWN or len(printed) > 900:
            pieces = "[part.shape for part in result]" if printed.startswith(("(", "[")) else "result.shape"
            code = "\n".join([*before, f"result = {call}", pieces])
            try:
                run(Sample(name, code, HEAD))
            except AttributeError:
                continue
        return code
    return None


def main() -> int:
    there = {sample.name: sample.code for sample in read(FILE)} if FILE.is_file() else {}
    missing = []
    for name in sorted(name for name in TABLE if not name.startswith("_")):
        if name not in there:
            code = made(name)
            if code is None:
                missing.append(name)
            else:
                there[name] = code
    text = HEAD + "\n".join(f"# %% {name}\n{code}\n" for name, code in sorted(there.items()) if name in TABLE)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(text, encoding="utf-8")
    print(f"{len(there)} samples; write by hand: {', '.join(missing) or 'none'}")
    return int(bool(missing))


if __name__ == "__main__":
    raise SystemExit(main())
