"""Reads the samples of docs/samples, one for each op, class and command, and runs them.

A file is Python in cells. A cell begins with ``# %% NAME``, the name of an op row, a class or a function. Each
cell runs by itself, after the lines before the first cell; the values of its bare expressions are printed.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from monorepo import ROOT

from docs_site.run_pages import state
from netcl.core.process import naming
from netcl.core.tensor.generator import default_generator

FOLDER = ROOT / "docs" / "samples"
_CELL = re.compile(r"^# %% (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Sample:
    """The code of a sample as a reader sees it, the lines that run before it, and what it prints."""

    name: str
    code: str
    before: str = ""
    output: str = ""

    @property
    def shown(self) -> str:
        """Returns the code after the functions of the lines before it that it calls: a reader must see them."""
        called = {node.id for node in ast.walk(ast.parse(self.code)) if isinstance(node, ast.Name)}
        functions = (node for node in ast.parse(self.before).body if isinstance(node, ast.FunctionDef))
        return "\n\n\n".join([*(ast.unparse(one) for one in functions if one.name in called), self.code])


def read(file: Path) -> list[Sample]:
    """Returns the samples of a file, without outputs."""
    before, *rest = _CELL.split(file.read_text(encoding="utf-8"))
    return [Sample(name.strip(), code.strip("\n"), before) for name, code in zip(rest[::2], rest[1::2])]


def samples() -> dict[str, Sample]:
    """Returns every sample by its name."""
    return {sample.name: sample for file in sorted(FOLDER.glob("*.py")) for sample in read(file)}


def with_outputs(stored: Path) -> dict[str, Sample]:
    """Returns every sample with what it prints on NumPy; from ``stored`` if neither samples nor sources changed."""
    listed = samples()
    key = hashlib.sha256(
        repr([state(), *((sample.name, sample.before, sample.code) for sample in listed.values())]).encode()
    )
    if not stored.is_file() or json.loads(stored.read_text(encoding="utf-8"))["key"] != key.hexdigest():
        command = [sys.executable, str(Path(__file__).resolve())]
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "NETCL_DEVICE": "cpu"}
            done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True, check=True)
        stored.parent.mkdir(parents=True, exist_ok=True)
        outputs = json.loads(done.stdout.splitlines()[-1])
        stored.write_text(json.dumps({"key": key.hexdigest(), "outputs": outputs}), encoding="utf-8")
    outputs = json.loads(stored.read_text(encoding="utf-8"))["outputs"]
    return {name: replace(sample, output=outputs[name]) for name, sample in listed.items()}


def run(sample: Sample) -> str:
    """Runs a sample and returns what it prints: calls of print, and the values of expressions that are not None."""
    tree = ast.parse(sample.code)
    for number, node in enumerate(tree.body):
        if isinstance(node, ast.Expr):
            shown = ast.parse("_show(0)").body[0]
            assert isinstance(shown, ast.Expr)
            assert isinstance(shown.value, ast.Call)
            shown.value.args = [node.value]
            tree.body[number] = ast.copy_location(shown, node)
    names: dict[str, object] = {"__name__": "sample", "_show": _show}
    exec(compile(sample.before, sample.name, "exec"), names)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), _own_names():
        exec(compile(ast.fix_missing_locations(tree), sample.name, "exec"), names)
    return printed.getvalue()


@contextlib.contextmanager
def _own_names() -> Iterator[None]:
    """Gives the next sample netcl's texts and random numbers again: ``netcl run`` leaves PyTorch's in the process."""
    library, numbers = naming.library, default_generator.numbers
    try:
        yield
    finally:
        naming.library, default_generator.numbers = library, numbers


def _show(value: object) -> None:
    if value is not None:
        print(value)


def main() -> int:
    """Runs all samples and prints their outputs as JSON, one object by names."""
    print("\n" + json.dumps({name: run(sample) for name, sample in samples().items()}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
