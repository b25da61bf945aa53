"""Each layer names both versions and a command if another layer is missing, out of range, or lacks a name."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from monorepo import OWNED, load_packages

UPPER = [name for name in OWNED if name not in ("netcl-core", "netcl-data")]


def lay(root: Path, site: Path, name: str, **versions: str) -> None:
    """Writes into ``site`` the start of a layer as in its wheel, and empty layers below it of the versions given."""
    packages = load_packages(root)
    layer = name.removeprefix("netcl-")
    (site / "netcl").mkdir()
    for file in ("__init__.py", "siblings.py"):
        shutil.copy(packages["netcl-core"].source / file, site / "netcl")
    for required in packages[name].dependencies:
        if found := re.match(r"netcl-(\w+)>=", required):
            empty = site / "netcl" / found[1]
            empty.mkdir()
            (empty / "__init__.py").touch()
            (empty / "__about__.py").write_text(
                f'__version__ = "{versions.get(found[1], "0.1.0")}"\n', encoding="utf-8"
            )
    (site / "netcl" / layer).mkdir()
    for file in ("__init__.py", "__about__.py"):
        shutil.copy(packages[name].source / layer / file, site / "netcl" / layer / file)


def error_of(site: Path, statement: str) -> str:
    """Returns the last line that Python prints for the statement, with nothing on its path but ``site`` and its own
    library.
    """
    code = f"import sys; sys.path.insert(0, {str(site)!r}); {statement}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stdout
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "version"), [*((name, "0.2.0") for name in UPPER), ("netcl-nn", "0.0.9"), ("netcl-nn", "1.0.0+mine")]
)
def test_a_core_of_another_series_is_refused_with_both_versions(
    root: Path, tmp_path: Path, name: str, version: str
) -> None:
    lay(root, tmp_path, name, core=version)
    own = load_packages(root)[name].version
    assert error_of(tmp_path, f"import netcl.{name.removeprefix('netcl-')}") == (
        f"ImportError: {name} {own} needs netcl-core>=0.1,<0.2, and netcl-core {version} is installed: "
        f"pip install 'netcl-core>=0.1,<0.2', or pip install --upgrade {name}"
    )


def test_every_required_layer_is_looked_at(root: Path, tmp_path: Path) -> None:
    lay(root, tmp_path, "netcl-trainer", distributed="0.2.0")
    assert "needs netcl-distributed>=0.1,<0.2, and netcl-distributed 0.2.0" in error_of(
        tmp_path, "import netcl.trainer"
    )


def test_a_local_version_and_a_patch_are_in_range(root: Path, tmp_path: Path) -> None:
    lay(root, tmp_path, "netcl-trainer", core="0.1.0+numpy", nn="0.1.7")
    assert error_of(tmp_path, "import netcl.trainer, sys; sys.exit(print('well', file=sys.stderr) or 1)") == "well"


def test_an_extra_of_data_is_looked_at_where_it_is_used(root: Path, tmp_path: Path) -> None:
    lay(root, tmp_path, "netcl-data")
    source = load_packages(root)["netcl-data"].source
    shutil.copy(source / "data/device_augment.py", tmp_path / "netcl/data/device_augment.py")
    (tmp_path / "netcl/data/__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "numpy").mkdir()
    for empty in ("numpy/__init__.py", "numpy/typing.py"):
        (tmp_path / empty).touch()
    wanted = "netcl-data 0.1.0 needs netcl-core>=0.1,<0.2, and its files are not there: pip install 'netcl-core"
    assert wanted in error_of(tmp_path, "import netcl.data.device_augment")
    shutil.rmtree(tmp_path / "netcl/__pycache__")
    for front in ("__init__.py", "siblings.py"):
        (tmp_path / "netcl" / front).unlink()
    assert wanted in error_of(tmp_path, "import netcl.data.device_augment")


@pytest.mark.parametrize("name", UPPER)
def test_a_core_without_any_file_is_named_with_the_command(root: Path, tmp_path: Path, name: str) -> None:
    lay(root, tmp_path, name)
    shutil.rmtree(tmp_path / "netcl/core")
    for front in ("__init__.py", "siblings.py"):
        (tmp_path / "netcl" / front).unlink()
    assert error_of(tmp_path, f"import netcl.{name.removeprefix('netcl-')}") == (
        f"ImportError: {name} needs netcl-core, and its files are not there: pip install --force-reinstall netcl-core"
    )


def test_a_layer_that_is_absent_is_named_with_the_command(root: Path, tmp_path: Path) -> None:
    lay(root, tmp_path, "netcl-optim")
    shutil.rmtree(tmp_path / "netcl/nn")
    assert error_of(tmp_path, "import netcl.optim") == (
        "ImportError: netcl-optim 0.1.0 needs netcl-nn>=0.1,<0.2, and its files are not there: "
        "pip install 'netcl-nn>=0.1,<0.2'"
    )


def test_a_layer_with_metadata_and_no_files_is_installed_again(root: Path, tmp_path: Path) -> None:
    lay(root, tmp_path, "netcl-autograd")
    shutil.rmtree(tmp_path / "netcl/core")
    record(tmp_path, "netcl_core", "0.1.0")
    assert error_of(tmp_path, "import netcl.autograd").endswith("pip install --force-reinstall --no-deps netcl-core")


def test_a_name_that_is_absent_from_a_layer_below_comes_with_the_versions(root: Path, tmp_path: Path) -> None:
    lay(root, tmp_path, "netcl-optim", autograd="0.1.3")
    (tmp_path / "netcl/amp").mkdir()
    (tmp_path / "netcl/amp/__init__.py").touch()
    message = error_of(tmp_path, "import netcl.optim")
    assert "netcl-optim 0.1.0 does not fit netcl-autograd 0.1.3: cannot import name 'GradScaler'" in message
    assert message.endswith("pip install --upgrade netcl-autograd netcl-optim")


def test_a_name_that_is_absent_from_the_layer_itself_stays_plain(root: Path, tmp_path: Path) -> None:
    lay(root, tmp_path, "netcl-distributed")
    assert error_of(tmp_path, "import netcl.distributed") == (
        "ModuleNotFoundError: No module named 'netcl.distributed.collectives'"
    )


def test_an_attribute_that_is_absent_comes_with_the_version(run_python: Callable[..., Any]) -> None:
    code = (
        "import netcl.ops, netcl.autograd, netcl.nn, netcl.optim\n"
        "for layer in (netcl.ops, netcl.autograd, netcl.nn, netcl.optim):\n"
        "    try: layer.bogus\n"
        "    except AttributeError as error: print(error)\n"
    )
    lines = run_python(code).stdout.splitlines()
    layers = (("ops", "core"), ("autograd", "autograd"), ("nn", "nn"), ("optim", "optim"))
    assert lines == [f"module 'netcl.{sub}' of netcl-{own} 0.1.0 has no attribute 'bogus'" for sub, own in layers]


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["data"], 'netcl-data alone is installed, which has no command: pip install "netcl-trainer[cpu]"'),
        (["core"], "the command is part of netcl-trainer: pip install netcl-trainer; python -m netcl.core lists"),
    ],
)
def test_netcl_as_a_program_says_what_to_install(root: Path, tmp_path: Path, names: list[str], wanted: str) -> None:
    for name in names:
        shutil.copytree(load_packages(root)[f"netcl-{name}"].source, tmp_path / "netcl", dirs_exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-S", "-m", "netcl"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert wanted in done.stderr
    assert len(done.stderr.splitlines()) == 1


def record(site: Path, name: str, version: str) -> None:
    """Writes the metadata of an installed distribution."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n", encoding="utf-8")


def test_the_front_of_the_unrelated_netcl_is_refused(root: Path, tmp_path: Path) -> None:
    lay(root, tmp_path, "netcl-nn")
    (tmp_path / "netcl/__init__.py").write_text("from netcl import core\n", encoding="utf-8")
    message = error_of(tmp_path, "import netcl.nn")
    assert "netcl.nn cannot be imported: the installed distribution named netcl is another project" in message
    assert "pip uninstall netcl, then pip install --force-reinstall --no-deps netcl-core" in message


def test_a_name_that_the_unrelated_netcl_has_overwritten_is_explained(root: Path, tmp_path: Path) -> None:
    lay(root, tmp_path, "netcl-optim")
    record(tmp_path, "netcl", "0.4.4")
    message = error_of(tmp_path, "import netcl.optim")
    assert "No module named 'netcl.amp'" in message
    assert "pip uninstall netcl, then" in message


def test_the_unrelated_netcl_over_ours_is_named_at_the_first_import(root: Path, tmp_path: Path) -> None:
    """Its modules netcl/core/NAME.py are hidden by our folders of that name, as Python prefers a package."""
    core = load_packages(root)["netcl-core"].source
    shutil.copytree(core, tmp_path / "netcl", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("netcl_core", "netcl_autograd", "netcl_nn", "netcl_torch"):
        record(tmp_path, name, "0.1.0")
    record(tmp_path, "netcl", "0.4.4")
    (tmp_path / "netcl/__init__.py").write_text("from .core import reshape\n", encoding="utf-8")
    for folder in ("tensor", "device", "memory", "kernels"):
        shutil.rmtree(tmp_path / "netcl/core/__pycache__", ignore_errors=True)
        (tmp_path / "netcl/core/__init__.py").write_text(f"from .{folder} import reshape\n", encoding="utf-8")
        assert error_of(tmp_path, "import netcl") == (
            f"ImportError: netcl.core.{folder} cannot be imported: the installed distribution named netcl is another "
            "project, which has files under netcl/ too: pip uninstall netcl, then "
            "pip install --force-reinstall --no-deps netcl-core netcl-autograd netcl-nn netcl-torch"
        )


def test_the_unrelated_netcl_next_to_ours_is_warned_of(root: Path, tmp_path: Path) -> None:
    lay(root, tmp_path, "netcl-nn")
    record(tmp_path, "netcl", "0.4.4")
    record(tmp_path, "netcl_nn", "0.1.0")
    warning = error_of(tmp_path, "import warnings; warnings.simplefilter('error'); import netcl")
    assert warning.startswith("RuntimeWarning: netcl 0.4.4 is installed, another project")
    assert warning.endswith("pip install --force-reinstall --no-deps netcl-core netcl-nn")
