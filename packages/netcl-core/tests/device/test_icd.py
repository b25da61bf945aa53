"""Drivers: PoCL, Intel's runtime and the system's are found together and alone, and advice names what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from netcl.core import config
from netcl.core.device import icd

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux, where netcl shows drivers")

OCLGRIND = Path("/usr/lib/oclgrind/liboclgrind-rt-icd.so")
NAMES = {"intel": "Intel(R) OpenCL", "pocl": "Portable Computing Language", "oclgrind": "Oclgrind"}

LIST_PLATFORMS = """
import json, os, sys
from netcl.core.device import icd
icd.ensure_drivers()
icd.ensure_drivers()
import pyopencl as cl
try:
    names = [platform.name for platform in cl.get_platforms()]
except cl.Error:
    names = []
print(json.dumps([names, os.environ.get("OCL_ICD_VENDORS"), [d.name for d in icd.find_drivers() if not d.problem]]))
"""


def _has(distribution):
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


needs_pyopencl = pytest.mark.skipif(icd._pyopencl is None, reason="needs pyopencl")
needs_intel = pytest.mark.skipif(not _has("intel-opencl-rt"), reason="needs Intel's CPU runtime (netcl-core[intel])")
needs_pocl = pytest.mark.skipif(not _has("pocl-binary-distribution"), reason="needs pip's PoCL (netcl-core[cpu])")
needs_oclgrind = pytest.mark.skipif(not OCLGRIND.exists(), reason="needs Oclgrind, as a driver of the system")


@pytest.fixture
def platforms(tmp_path):
    """Runs a fresh process and returns (platform names, OCL_ICD_VENDORS, names of drivers that netcl found)."""

    def run(prelude="", **environment):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("OCL_ICD_", "OPENCL_VENDOR", "NETCL_"))}
        env.update({"NETCL_CACHE_DIR": str(tmp_path / "cache"), "OPENCL_VENDOR_PATH": str(tmp_path / "system")})
        env.update(environment)
        done = subprocess.run(
            [sys.executable, "-c", prelude + LIST_PLATFORMS], env=env, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def system_oclgrind(tmp_path):
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "oclgrind.icd").write_text(f"{OCLGRIND}\n")


@needs_pyopencl
@needs_intel
@needs_pocl
@needs_oclgrind
@pytest.mark.usefixtures("system_oclgrind")
def test_three_drivers_in_one_process(platforms):
    names, vendors, found = platforms()
    assert sorted(names) == sorted(NAMES.values())
    assert sorted(found) == ["Intel CPU runtime", "Oclgrind", "PoCL"]
    assert Path(vendors).name.startswith("netcl-icd-")


# Takes pip's drivers out of a process's sight, as if they were not installed.
WITHOUT = """
import sys
from importlib import metadata
seen = metadata.distribution
def distribution(name):
    if name in {names!r}:
        raise metadata.PackageNotFoundError(name)
    return seen(name)
metadata.distribution = distribution
sys.prefix = "/nowhere"
"""


@needs_pyopencl
@needs_pocl
def test_pocl_alone_needs_no_help(platforms):
    names, vendors, found = platforms(WITHOUT.format(names=["intel-opencl-rt"]))
    assert (names, vendors, found) == ([NAMES["pocl"]], None, ["PoCL"])


@needs_pyopencl
@needs_pocl
@needs_oclgrind
@pytest.mark.usefixtures("system_oclgrind")
def test_system_drivers_stay_without_help(platforms):
    names, vendors, found = platforms(WITHOUT.format(names=["intel-opencl-rt"]))
    assert sorted(names) == sorted([NAMES["oclgrind"], NAMES["pocl"]])
    assert vendors is None
    assert found == ["Oclgrind", "PoCL"]


@needs_pyopencl
@needs_intel
def test_intel_without_system_drivers(platforms):
    names, vendors, found = platforms()
    assert NAMES["intel"] in names
    assert NAMES["oclgrind"] not in names
    assert "Intel CPU runtime" in found
    assert [icd_file.read_text() for icd_file in Path(vendors).iterdir()][0].endswith("libintelocl.so\n")


@needs_pyopencl
@needs_intel
@needs_pocl
def test_a_use_of_pyopencl_before_netcl_is_named(tmp_path):
    """The loader reads its list of drivers once, without the folder that netcl would write."""
    code = "import pyopencl; pyopencl.get_platforms(); import netcl as nc; nc.zeros(2, device='intel')"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OCL_ICD_", "NETCL_"))}
    env.update({"NETCL_CACHE_DIR": str(tmp_path), "OPENCL_VENDOR_PATH": str(tmp_path)})
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    first, *_, last = done.stderr.splitlines()
    why = "Intel CPU runtime is installed and stays unseen in this process: pyopencl was used before netcl"
    assert why in first
    assert why in last
    assert "no device answers to 'intel'" in done.stderr
    asked_first = code.replace("import pyopencl;", "import netcl.core, pyopencl; netcl.core.manager.discover();")
    done = subprocess.run([sys.executable, "-c", asked_first], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@needs_pyopencl
@needs_intel
def test_the_users_choice_stands(platforms, tmp_path):
    library = str(icd._wheel_files("intel-opencl-rt", "libintelocl.so")[0])
    only = tmp_path / "only.icd"
    only.write_text(library + "\n")
    names, vendors, found = platforms(OCL_ICD_VENDORS=str(only))
    assert (names, vendors, found) == ([NAMES["intel"]], str(only), ["Intel CPU runtime"])

    empty = tmp_path / "chosen"
    empty.mkdir()
    names, vendors, _ = platforms(OCL_ICD_VENDORS=str(empty))
    assert NAMES["intel"] not in names
    assert vendors == str(empty)


@needs_pyopencl
@needs_intel
@needs_oclgrind
def test_file_names_of_the_user_are_used_too(platforms):
    names, _, _ = platforms(OCL_ICD_FILENAMES=str(OCLGRIND))
    assert {NAMES["intel"], NAMES["oclgrind"]} <= set(names)


@needs_pyopencl
@needs_intel
def test_a_parents_folder_is_no_choice_of_the_user(platforms, tmp_path):
    names, vendors, _ = platforms(OCL_ICD_VENDORS=str(tmp_path / "netcl-icd-gone"))
    assert NAMES["intel"] in names
    assert Path(vendors).is_dir()


@needs_pyopencl
@needs_intel
def test_an_unwritable_cache_is_replaced_by_a_temporary_folder(platforms, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    for setting in ({"NETCL_CACHE_DIR": str(blocked / "below")}, {"NETCL_CACHE": "0"}):
        names, vendors, _ = platforms(**setting)
        assert NAMES["intel"] in names
        assert not Path(vendors).exists()  # it went with the process
        assert not vendors.startswith(str(tmp_path / "cache"))


def test_a_temporary_folder_in_which_a_thread_still_writes_is_removed(tmp_path, monkeypatch):
    """As drivers do that compile kernels at the end of a process."""
    hooks, remove = [], icd.cache_files.shutil.rmtree
    monkeypatch.setattr(icd.cache_files.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(icd.cache_files.atexit, "register", hooks.append)
    folder = icd.cache_files.temporary_folder("netcl-pocl-")
    late = iter((True, True, False))

    def removed(path, ignore_errors):
        remove(path, ignore_errors=ignore_errors)
        if next(late):
            (path / "kernel").mkdir(parents=True)

    monkeypatch.setattr(icd.cache_files.shutil, "rmtree", removed)
    (hook,) = hooks
    hook()
    assert not folder.exists()
    assert list(late) == []


@pytest.fixture
def fake_intel(tmp_path, monkeypatch):
    """Returns an installed Intel runtime without the libraries it needs; returns its folder."""
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "libintelocl.so").write_text("")
    (folder / "libtbb.so.12").write_text("")
    monkeypatch.setattr(
        icd, "_wheel_files", lambda name, _: [folder / "libintelocl.so"] if name == "intel-opencl-rt" else []
    )
    for name in ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "LD_LIBRARY_PATH"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("OPENCL_VENDOR_PATH", str(tmp_path / "system"))
    return folder


def test_intel_without_its_compiler_runtime_is_reported_not_shown(fake_intel, monkeypatch):
    driver = next(d for d in icd.find_drivers() if d.name == "Intel CPU runtime")
    for part in ("libimf.so", "libsvml.so", "pip install intel-cmplr-lib-rt"):
        assert part in driver.problem
        assert part in icd.advice()
    monkeypatch.setattr(icd, "_ensured", False)
    icd.ensure_drivers()
    assert not os.environ.get("OCL_ICD_VENDORS")

    for name in ("libimf.so", "libsvml.so"):
        (fake_intel / name).write_text("")
    assert next(d for d in icd.find_drivers() if d.name == "Intel CPU runtime").problem == ""


def test_a_broken_entry_of_the_system_is_reported(fake_intel, tmp_path):
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "nvidia.icd").write_text("/nowhere/libnvidia-opencl.so.1\n")
    (tmp_path / "system" / "empty.icd").write_text("")
    (tmp_path / "system" / "mesa.icd").write_text("libRusticlOpenCL.so.1\n")
    found = {d.name: d for d in icd.find_drivers()}
    assert found["NVIDIA"].problem == "/nowhere/libnvidia-opencl.so.1 does not exist"
    assert str(tmp_path / "system" / "nvidia.icd") in found["NVIDIA"].origin
    assert found["Mesa rusticl"].problem == ""  # a bare name is the dynamic linker's to find


def test_a_driver_of_two_names_is_listed_once(fake_intel, tmp_path, monkeypatch):
    folder = tmp_path / "linker"
    folder.mkdir()
    (folder / "libpocl.so.2.11.0").write_text("")
    (folder / "libpocl.so.2").symlink_to("libpocl.so.2.11.0")
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "nvidia.icd").write_text("libnvidia-opencl.so.1\n")
    (tmp_path / "system" / "pocl.icd").write_text(f"{folder}/libpocl.so.2.11.0\n")
    monkeypatch.setattr(icd, "_loader_folder", lambda: None)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.setenv("OCL_ICD_FILENAMES", "libpocl.so.2:libnvidia-opencl.so.1")
    names = [driver.name for driver in icd.find_drivers()]
    assert names.count("PoCL") == names.count("NVIDIA") == 1


def test_the_folder_is_made_whole_again(tmp_path):
    files = {"00-a.icd": "liba.so\n", "01-b.icd": "libb.so\n"}
    folder = icd._write_folder(tmp_path / "deep" / "netcl-icd-1", files)
    (folder / "00-a.icd").write_text("damaged")
    (folder / "01-b.icd").unlink()
    (folder / "99-old.icd").write_text("libold.so\n")
    assert icd._write_folder(folder, files) == folder
    assert {path.name: path.read_text() for path in folder.iterdir()} == files
    assert [path.name for path in folder.parent.iterdir()] == ["netcl-icd-1"]


def test_advice_without_any_driver_and_without_pyopencl(fake_intel, monkeypatch):
    monkeypatch.setattr(icd, "_wheel_files", lambda *_: [])
    monkeypatch.setattr(icd, "_loader_folder", lambda: None)
    monkeypatch.setattr(icd.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "prefix", "/nowhere")
    monkeypatch.setattr(icd, "_graphics_cards", lambda: [("0x10de", Path("/dev/dri/renderD128"))])
    assert icd.find_drivers() == []
    monkeypatch.setattr(icd, "_pyopencl", object())
    assert 'no OpenCL driver: pip install "netcl-core[cpu]"' in icd.advice()
    assert "graphics card of NVIDIA" in icd.advice()
    monkeypatch.setattr(icd, "_pyopencl", None)
    assert 'Install pyopencl: pip install "netcl-core[cpu]"' in icd.advice()
    # The drivers of pip are for CPUs.
    with pytest.raises(
        ImportError, match=r'device\("gpu"\).*pip install "netcl-core\[opencl\]", and the OpenCL driver'
    ):
        icd.require_pyopencl('device("gpu")', gpu=True)
    monkeypatch.setattr(icd.platform, "machine", lambda: "aarch64")
    assert 'pip install "netcl-core[opencl]"' in icd.advice()
    with pytest.raises(ImportError, match="pyopencl required"):
        icd.require_pyopencl()
    monkeypatch.setattr(icd, "_on_linux", lambda: False)
    assert icd.find_drivers() == []
    assert "vendor" in icd.advice()


@pytest.mark.parametrize(("drivers", "told"), [(["PoCL"], True), (["PoCL", "Intel CPU runtime"], False)])
def test_advice_with_pocl_alone_names_the_other_driver(drivers, told, monkeypatch):
    found = [icd.Driver(name, "lib.so", "pip", "") for name in drivers]
    monkeypatch.setattr(icd, "find_drivers", lambda: found)
    monkeypatch.setattr(icd, "_graphics_cards", list)
    monkeypatch.setattr(icd.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(icd, "_on_linux", lambda: True)
    monkeypatch.setattr(icd, "_pyopencl", object())
    assert ('pip install "netcl-core[intel]"' in icd.advice()) == told


def test_a_bad_cache_setting_is_named(fake_intel, monkeypatch):
    for name in ("libimf.so", "libsvml.so"):
        (fake_intel / name).write_text("")
    monkeypatch.setattr(icd, "_ensured", False)
    monkeypatch.setenv("NETCL_CACHE", "perhaps")
    with pytest.raises(config.ConfigError, match="NETCL_CACHE"):
        icd.ensure_drivers()
