"""The layers of the repository: the contracts of import-linter hold, a planted import breaks the one that forbids it,
and there is no import cycle, type-checking and deferred imports included; kernels are next to their launchers.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import check_layers
import count_structure
import pytest
from monorepo import ROOT, load_packages

FEW = {"netcl-core": 6, "netcl-autograd": 1}  # deferred imports


def test_the_tree_keeps_to_the_layers() -> None:
    status, text = check_layers.check()
    assert status == 0, text


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("copy")
    shutil.copy(ROOT / "pyproject.toml", root)
    for package in load_packages().values():
        folder = root / package.folder.relative_to(ROOT)
        shutil.copytree(package.folder / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(package.folder / "pyproject.toml", folder)
    return root


@pytest.mark.parametrize(
    ("module", "code", "contract"),
    [
        ("netcl-core/src/netcl/core/expr/nodes.py", "from netcl.core.tensor import Tensor", "layers of netcl.core"),
        (
            "netcl-core/src/netcl/core/expr/nodes.py",
            "if TYPE_CHECKING:\n    from netcl.core.engine.protocol import DeviceBackend",
            "layers of netcl.core",
        ),
        (
            "netcl-core/src/netcl/core/backend/cpu/gemm.py",
            "def f():\n    from netcl.core.backend.opencl.engine import OpenCLBackend",
            "layers of netcl.core.backend",
        ),
        (
            "netcl-core/src/netcl/core/backend/opencl/queue/launch.py",
            "from netcl.core.backend.opencl.contraction import gemm",
            "layers of netcl.core.backend.opencl",
        ),
        ("netcl-core/src/netcl/core/storage/data.py", "from netcl.core.engine import registry", "layers of netcl.core"),
        ("netcl-core/src/netcl/core/errors.py", "from netcl.ops import relu", "layers of the distributions"),
        ("netcl-nn/src/netcl/nn/module.py", "from netcl.trainer import Trainer", "layers of the distributions"),
        ("netcl-trainer/src/netcl/trainer/step.py", "from netcl.torch import tree", "layers of the distributions"),
    ],
)
def test_a_planted_import_breaks_the_contract(copy: Path, module: str, code: str, contract: str) -> None:
    path = copy / "packages" / module
    before = path.read_text(encoding="utf-8")
    path.write_text(f"{before}\n{code}\n", encoding="utf-8")
    try:
        status, text = check_layers.check(copy)
    finally:
        path.write_text(before, encoding="utf-8")
    assert status == 1
    assert f"{contract} BROKEN" in text


def test_the_repository_has_no_import_cycle() -> None:
    arrows = count_structure.arrows_of(count_structure.modules_of(ROOT))
    assert count_structure.cycles(arrow for arrow in arrows if arrow.kind != "loaded") == []


def test_no_folders_import_each_other() -> None:
    arrows = count_structure.arrows_of(count_structure.modules_of(ROOT))
    folders = [arrow for arrow in count_structure.between_folders(arrows) if arrow.kind != "loaded"]
    assert count_structure.cycles(arrow for arrow in folders if arrow.kind == "module") == []
    others = [cycle for cycle in count_structure.cycles(folders) if not cycle[0].startswith("netcl.distributed")]
    assert others == []  # netcl.distributed: types of what a group's staging returns


def test_a_cycle_of_folders_is_found() -> None:
    pairs = [("a.b.c", "a.d.e"), ("a.d.f", "a.b"), ("a.b.g", "a.b.c"), ("a", "a.b"), ("a.h", "a.b.c")]
    folders = count_structure.between_folders(count_structure.Arrow(*pair, "module") for pair in pairs)
    assert count_structure.cycles(folders) == [["a.b", "a.d"]]


@pytest.mark.parametrize("package", ["netcl-core", "netcl-autograd"])
def test_few_imports_are_deferred(package: str) -> None:
    modules = count_structure.modules_of(ROOT)
    assert count_structure.deferred_imports(count_structure.arrows_of(modules), modules)[package] <= FEW[package]


def test_a_cycle_is_found() -> None:
    arrows = [count_structure.Arrow(*pair, "type") for pair in ("ab", "bc", "ca", "cd", "de", "ed", "ef")]
    assert count_structure.cycles(arrows) == [["a", "b", "c"], ["d", "e"]]


def test_each_kernel_file_is_named_by_a_launcher_in_its_folder_or_by_a_row(tmp_path: Path) -> None:
    assert count_structure.kernels_apart(ROOT) == []
    folder = tmp_path / "packages" / "netcl-core" / "src"
    folder.mkdir(parents=True)
    (folder / "launcher.py").write_text('names = ["pad"]\nothers = f"pad_{kind}"\n', encoding="utf-8")
    for name in ("pad", "pad_sample"):
        (folder / f"{name}.cl").touch()
    assert [path.stem for path in count_structure.kernels_apart(tmp_path)] == ["pad_sample"]
