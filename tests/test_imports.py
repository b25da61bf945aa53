"""The direction of imports: the tree follows it, and each kind of planted fault is found."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import check_imports
import pytest
from monorepo import OWNED, SETTINGS, Package, load_packages


def test_the_tree_keeps_to_the_layers() -> None:
    assert check_imports.check() == []


def plant(folder: Path, name: str, module: str, code: str) -> list[str]:
    """Returns the faults of a package `name` with `code` in `module`; it declares the real one's needs of netcl."""
    layers = {"netcl-nn": ["netcl-core>=0.1,<0.2", "netcl-autograd>=0.1,<0.2"], "netcl-core": ["numpy>=1.24"]}
    project = {
        "dependencies": layers.get(name, ["numpy>=1.24"]),
        "optional-dependencies": {"device": ["netcl-core>=0.1,<0.2"], "image": ["Pillow>=9.4"], "opencl": ["pyopencl"]},
    }
    path = folder / "src" / "netcl" / module
    path.parent.mkdir(parents=True)
    path.write_text(code, encoding="utf-8")
    return check_imports.check_package(Package(name, folder, project))


@pytest.mark.parametrize(
    ("name", "module", "code", "complaint"),
    [
        ("netcl-data", "data/loader.py", "from netcl.core import Tensor", "netcl-core is not among the dependencies"),
        ("netcl-data", "data/loader.py", "def f():\n    import netcl.core.tensor", "netcl-core is not among"),
        ("netcl-nn", "nn/linear.py", "from netcl.optim import SGD", "netcl-optim is not among the dependencies"),
        ("netcl-nn", "nn/linear.py", "import importlib\nimportlib.import_module('netcl.optim')", "netcl-optim is not"),
        ("netcl-nn", "nn/linear.py", "import netcl", "bare netcl"),
        ("netcl-nn", "nn/linear.py", "from netcl import Tensor", "bare netcl"),
        ("netcl-nn", "nn/linear.py", "import scipy", "scipy is not among the dependencies"),
        ("netcl-nn", "nn/linear.py", "try:\n    import pyopencl\nexcept ImportError:\n    pass", "netcl-core alone"),
        ("netcl-nn", "nn/linear.py", "x = '__kernel void f() {}'", "OpenCL text"),
        ("netcl-nn", "nn/x.cl", "", "OpenCL text"),
        ("netcl-nn", "optim/sgd.py", "", "does not own"),
        ("netcl-nn", "__init__.py", "", "belongs to netcl-core alone"),
        (
            "netcl-core",
            "core/tensor.py",
            "from importlib import import_module\ndef f():\n    import_module('netcl.ops')",
            "netcl.core does not load netcl.ops",
        ),
        ("netcl-core", "core/tensor.py", "import pyopencl as cl", "needs a guard"),
        ("netcl-core", "__init__.py", "from netcl.core import Tensor", "nothing of netcl at import"),
        ("netcl-data", "data/readers.py", "from PIL import Image", "comes with an extra"),
    ],
)
def test_a_planted_fault_is_seen(tmp_path: Path, name: str, module: str, code: str, complaint: str) -> None:
    faults = plant(tmp_path, name, module, code)
    assert len(faults) == 1
    assert complaint in faults[0]


@pytest.mark.parametrize(
    ("name", "module", "code"),
    [
        ("netcl-core", "core/device.py", "try:\n    import pyopencl as cl\nexcept ImportError:\n    cl = None"),
        ("netcl-core", "ops/linalg.py", "from netcl.core import dispatch"),
        ("netcl-core", "core/backend/x.py", "from ..tensor import Tensor"),
        ("netcl-data", "data/augment_gpu.py", "def f():\n    from netcl.core import Tensor"),
        ("netcl-data", "data/device_augment.py", "from netcl.core import Tensor"),
        ("netcl-data", "data/readers.py", "def f():\n    from PIL import Image"),
        ("netcl-nn", "nn/linear.py", "'''Not a __kernel: words in a docstring.'''\nfrom netcl.autograd import ops"),
    ],
)
def test_what_is_allowed_passes(tmp_path: Path, name: str, module: str, code: str) -> None:
    assert plant(tmp_path, name, module, code) == []


def test_no_layer_names_an_extension() -> None:
    """The front alone does, to say what to install."""
    names = [re.escape(name) for name in SETTINGS["tool"]["netcl"]["extensions"]]
    names += [rf"netcl\.{sub}\b" for subs in SETTINGS["tool"]["netcl"]["extensions"].values() for sub in subs]
    named = re.compile("|".join(names))
    layers = [package for name, package in load_packages().items() if name in SETTINGS["tool"]["netcl"]["packages"]]
    paths = [path for package in layers for path in package.modules()]
    fronts = {path for path in paths if named.search(path.read_text(encoding="utf-8"))}
    assert fronts == {layers[0].source / "__init__.py"}


def test_every_subpackage_has_one_owner() -> None:
    owned = [sub for subs in OWNED.values() for sub in subs]
    assert len(owned) == len(set(owned)) == 20


def test_programs_of_child_processes_import_modules_that_exist() -> None:
    """A child that cannot import its trial counts as one whose trial failed, so nothing else shows it."""
    line = re.compile(r"^(?:from (netcl[\w.]*) import [\w, ]+|import (netcl[\w.]*))$", re.MULTILINE)
    sources = [path for package in load_packages().values() for path in (package.folder / "src").rglob("*.py")]
    texts = [
        (path, node.value)
        for path in sources
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "import" in node.value
    ]
    named = {(path, module) for path, text in texts for names in line.findall(text) for module in names if module}
    assert len(named) > 8
    assert [(path, module) for path, module in named if find_spec(module) is None] == []
