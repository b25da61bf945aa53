"""netcl-core-kit: parts of a core that need neither netcl nor a device."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from netcl.core import dtypes

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "alternatives/netcl-core-kit/src"
MODULES = sorted(path.stem for path in (SOURCE / "netcl_core_kit").glob("*.py") if path.stem != "__init__")


def _run(code: str) -> str:
    """Returns the output of ``code`` in a process that finds the kit and NumPy, and no netcl."""
    env = os.environ | {"PYTHONPATH": str(SOURCE)}
    hidden = "import sys; sys.modules['netcl'] = None\n"
    done = subprocess.run([sys.executable, "-c", hidden + code], env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_imports_without_netcl_and_without_pytorch() -> None:
    names = ", ".join(f"netcl_core_kit.{name}" for name in MODULES)
    loaded = _run(f"import {names}\nprint(*(name for name in sys.modules if name.startswith(('netcl.', 'torch'))))")
    assert len(MODULES) > 20
    assert loaded.split() == []


@pytest.mark.parametrize("name", MODULES)
def test_its_modules_import_numpy_and_each_other_alone(name: str) -> None:
    tree = ast.parse((SOURCE / "netcl_core_kit" / f"{name}.py").read_text(encoding="utf-8"))
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    tops = {one.partition(".")[0] for one in found}
    assert tops <= {*sys.stdlib_module_names, "numpy", "netcl_core_kit"}


def test_its_dtypes_are_those_of_netcl_core() -> None:
    pairs = [(a, b) for a in dtypes.SUPPORTED for b in dtypes.SUPPORTED if "uint64" not in (a, b)]
    found = _run(f"from netcl_core_kit.dtypes import promote\nprint(*(promote(a, b) for a, b in {pairs!r}))").split()
    assert found == [dtypes.promote(a, b) for a, b in pairs]
    values = np.concatenate([np.random.default_rng(0).standard_normal(500).astype(np.float32), [np.inf, -0.0, 1e-40]])
    bits = dtypes.to_bfloat16(values.astype(np.float32)).tolist()
    code = f"from netcl_core_kit.dtypes import to_bfloat16\nimport numpy as np\nvalues = {values.tolist()!r}".replace(
        "inf", "np.inf"
    )
    assert _run(f"{code}\nprint(*to_bfloat16(np.array(values, np.float32)).tolist())").split() == list(map(str, bits))


def test_its_texts_are_parsed_as_those_of_netcl_core() -> None:
    code = (
        "from netcl_core_kit.errors import ExpressionError\nfrom netcl_core_kit.expr import Load, parse\n"
        "node = parse('MAX(v0, 0.0f) * v1 + 2', 2)\nprint(node.prim.name, node.args[0].prim.name, node.dtype)\n"
        "try:\n    parse('v0 +', 1)\nexcept ExpressionError as error:\n    print(str(error).splitlines()[0])\n"
    )
    assert _run(code).splitlines() == ["add mul float32", "expected a value, found 'the end' at position 4:"]
