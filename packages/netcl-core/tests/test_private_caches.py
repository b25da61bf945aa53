"""Caches hold code: their files belong to the user alone, an entry answers for its own key alone, and a cache folder
that cannot be used costs one warning."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from netcl.core import config
from netcl.core.device import manager
from netcl.core.errors import DeviceNotFoundError
from netcl.core.process import cache_files

cl = pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")
from netcl.runtime.cache import ProgramCache  # noqa: E402

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX, which has owners and modes of files")
as_root = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="needs root, who may give a file to another user"
)

FACTOR = "__kernel void times(__global float* x) { x[get_global_id(0)] *= %d.0f; }"
STRANGER = 54321

SUM = """
import numpy as np
from netcl import ops
from netcl.core import Tensor
from netcl.core.device import manager
x = Tensor.from_host(manager.default().queue, np.ones(3, np.float32))
print(ops.add(x, x).to_host().tolist())
"""


@pytest.fixture(params=["pocl", "intel"])
def queue(request):
    try:
        return manager.default(request.param).queue
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {request.param} is not installed")


def product(queue, folder, factor, options=""):
    """Returns the factor that the kernel of ``factor`` multiplies by, with programs from a cache in ``folder``."""
    program = ProgramCache(folder).get_program(queue.context, FACTOR % factor, queue.device, options)
    values = np.ones(4, np.float32)
    buffer = cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=values)
    kernel = cl.Kernel(program, "times")
    kernel.set_arg(0, buffer)
    cl.enqueue_nd_range_kernel(queue, kernel, (4,), None)
    cl.enqueue_copy(queue, values, buffer)
    return values[0]


def modes(folder):
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}


def test_an_entry_copied_over_anothers_is_built_again(queue, tmp_path):
    assert product(queue, tmp_path, 3) == 3
    (three,) = tmp_path.glob("*.clbin")
    assert product(queue, tmp_path, 5) == 5
    (five,) = set(tmp_path.glob("*.clbin")) - {three}
    shutil.copy(three, five)
    assert product(queue, tmp_path, 5) == 5
    assert product(queue, tmp_path, 3) == 3


def test_an_entry_answers_for_its_options_alone(queue, tmp_path):
    folders = tmp_path / "plain", tmp_path / "fast"
    for folder, options in zip(folders, ("", "-cl-fast-relaxed-math")):
        product(queue, folder, 3, options)
    (plain,), (fast,) = (list(folder.glob("*.clbin")) for folder in folders)
    shutil.copy(fast, plain)
    cache = ProgramCache(folders[0])
    cache.get_program(queue.context, FACTOR % 3, queue.device)
    assert (cache.stats.corrupt, cache.stats.disk_hits, cache.stats.builds) == (1, 0, 1)


def test_folders_and_files_are_the_users_alone_under_any_umask(queue, tmp_path):
    folder = tmp_path / "cache" / "programs"
    before = os.umask(0)
    try:
        product(queue, folder, 3)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder)] == [0o700, 0o700]
    assert modes(folder) == {0o600}


def test_a_folder_that_others_may_write_is_ignored_with_one_warning(queue, tmp_path):
    product(queue, tmp_path, 3)
    (entry,) = tmp_path.glob("*.clbin")
    before = entry.read_bytes()
    tmp_path.chmod(0o777)
    cache = ProgramCache(tmp_path)
    with pytest.warns(RuntimeWarning, match="mode 0777") as caught:
        for factor in (3, 5):
            cache.get_program(queue.context, FACTOR % factor, queue.device)
    assert len(caught) == 1
    assert (cache.stats.disk_hits, cache.stats.builds) == (0, 2)
    assert list(tmp_path.glob("*.clbin")) == [entry]
    assert entry.read_bytes() == before


def test_a_file_that_others_may_write_is_built_again(queue, tmp_path):
    product(queue, tmp_path, 3)
    (entry,) = tmp_path.glob("*.clbin")
    entry.chmod(0o666)
    with pytest.warns(RuntimeWarning, match="mode 0666"):
        assert product(queue, tmp_path, 3) == 3
    assert modes(tmp_path) == {0o600}


@as_root
def test_files_and_folders_of_other_users_are_ignored(queue, tmp_path):
    product(queue, tmp_path, 3)
    (entry,) = tmp_path.glob("*.clbin")
    os.chown(entry, STRANGER, STRANGER)
    with pytest.warns(RuntimeWarning, match=f"user {STRANGER}"):
        assert product(queue, tmp_path, 3) == 3
    assert next(tmp_path.glob("*.clbin")).stat().st_uid == 0
    folder = tmp_path / "other"
    product(queue, folder, 3)
    os.chown(folder, STRANGER, STRANGER)
    cache = ProgramCache(folder)
    with pytest.warns(RuntimeWarning, match=f"user {STRANGER}"):
        cache.get_program(queue.context, FACTOR % 3, queue.device)
    assert (cache.stats.disk_hits, cache.stats.builds) == (0, 1)


@pytest.mark.parametrize("kind", ["fifo", "link", "folder"])
def test_an_entry_that_is_no_file_is_built_again(queue, tmp_path, kind):
    assert product(queue, tmp_path / "a", 3) == 3
    (entry,) = (tmp_path / "a").glob("*.clbin")
    content = entry.read_bytes()
    entry.unlink()
    if kind == "fifo":
        os.mkfifo(entry)
    elif kind == "folder":
        entry.mkdir()
    else:
        (tmp_path / "elsewhere").write_bytes(content)
        entry.symlink_to(tmp_path / "elsewhere")
    with pytest.warns(RuntimeWarning, match="kept in memory only"):
        assert product(queue, tmp_path / "a", 3) == 3


def test_measurements_of_another_driver_are_not_taken(queue, tmp_path, caplog):
    from netcl.core.kernel_selector import KernelConfig, KernelVariant
    from netcl.core.tuning import measurements

    chosen = KernelConfig(KernelVariant.MATMUL_NAIVE, extra={"kernel": "direct"})
    with config.override(CACHE_DIR=tmp_path):
        for driver in ("one", "two"):
            measurements._write(measurements._path(driver), driver, {("matmul", (8, 8, 8), driver): chosen})
        one, two = (measurements._path(driver) for driver in ("one", "two"))
        assert measurements._read(one, "one") == {("matmul", (8, 8, 8), "one"): chosen}
        shutil.copy(one, two)
        assert measurements._read(two, "two") == {}
        assert "measured again" in caplog.text
        two.chmod(0o602)
        with pytest.warns(RuntimeWarning, match="mode 0602"):
            assert measurements._read(two, "two") == {}


def run(code, tmp_path, *options, **environment):
    env = {name: text for name, text in os.environ.items() if not name.startswith(("NETCL_", "POCL_", "OCL_ICD_"))}
    env.update({"TMPDIR": str(tmp_path), **environment})
    command = [sys.executable, "-W", "always", *options, "-c", code]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=20)


def test_an_empty_folder_of_pocl_is_unset(tmp_path):
    try:
        manager.default("pocl")
    except DeviceNotFoundError:
        pytest.skip("the OpenCL driver pocl is not installed")
    done = run(SUM, tmp_path, NETCL_DEVICE="pocl", POCL_CACHE_DIR="")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[2.0, 2.0, 2.0]", "")


def test_a_bad_variable_is_reported_once_and_leaves_no_folder_behind(tmp_path):
    """Also at the end of the process, which waits for the queue before the folder is removed."""
    try:
        manager.default("pocl")
    except DeviceNotFoundError:
        pytest.skip("the OpenCL driver pocl is not installed")
    done = run(SUM, tmp_path, NETCL_DEVICE="pocl", POCL_CACHE_DIR="/proc", NETCL_WATCHDOG_S="-1")
    assert done.returncode == 1
    assert done.stderr.count("ConfigError") == 1, done.stderr
    assert not list(tmp_path.glob("netcl-pocl-*"))


@pytest.mark.parametrize("kind", ["open", "link"])
def test_a_note_that_others_may_write_is_made_again(tmp_path, kind):
    """The entry of a program that the driver keeps says no more than that it is there."""
    try:
        manager.default("pocl")
    except DeviceNotFoundError:
        pytest.skip("the OpenCL driver pocl is not installed")
    places = {"NETCL_DEVICE": "pocl", "NETCL_CACHE_DIR": str(tmp_path / "cache")}
    assert run(SUM, tmp_path, **places).returncode == 0
    entries = list((tmp_path / "cache/programs").glob("*.clbin"))
    assert entries
    for entry in entries:
        if kind == "open":
            entry.chmod(0o666)
        else:
            entry.unlink()
            entry.symlink_to("/dev/zero")
    assert run(SUM, tmp_path, **places).returncode == 0
    assert {stat.S_IMODE(entry.lstat().st_mode) for entry in entries} == {0o600}


@pytest.mark.parametrize("driver", ["pocl", "intel"])
@pytest.mark.parametrize(
    "environment",
    [
        {"HOME": "/proc"},
        {"XDG_CACHE_HOME": "/dev/null/x"},
        pytest.param({"HOME": "/dev/null", "XDG_CACHE_HOME": ""}, marks=pytest.mark.deep),
        pytest.param({"XDG_CACHE_HOME": "FILE/x"}, marks=pytest.mark.deep),
        {"XDG_CACHE_HOME": "OPEN"},
        {"XDG_CACHE_HOME": "/dev/null/x", "POCL_CACHE_DIR": "/proc"},
    ],
    ids=lambda environment: ",".join(f"{name}={value}" for name, value in environment.items()),
)
def test_a_cache_folder_that_cannot_be_used_costs_one_warning(driver, environment, tmp_path):
    try:
        manager.default(driver)
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {driver} is not installed")
    (tmp_path / "file").write_text("")
    for path in ("open", "open/netcl", "open/pocl", "open/pocl/kcache"):
        (tmp_path / path).mkdir()
        (tmp_path / path).chmod(0o777)
    places = {"FILE": str(tmp_path / "file"), "OPEN": str(tmp_path / "open")}
    for name, place in places.items():
        environment = {key: value.replace(name, place) for key, value in environment.items()}
    (tmp_path / "tmp").mkdir()
    done = run(SUM, tmp_path / "tmp", NETCL_DEVICE=driver, **environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[2.0, 2.0, 2.0]"
    assert done.stderr.count("Warning") == 1, done.stderr
    assert "kept in memory only" in done.stderr
    assert not list((tmp_path / "tmp").iterdir()), "a temporary folder was left"
    assert not [path for path in (tmp_path / "open").rglob("*") if path.is_file()]


FULL = """
import os, shutil
usage = shutil.disk_usage
def disk_usage(path):
    return usage(path)._replace(free={free}) if str(path).startswith({full!r}) else usage(path)
shutil.disk_usage = disk_usage
"""


@pytest.fixture
def pocl():
    try:
        manager.default("pocl")
    except DeviceNotFoundError:
        pytest.skip("the OpenCL driver pocl is not installed")


def test_a_full_disk_gives_pocl_another_folder_with_one_warning(pocl, tmp_path):
    home = tmp_path / "home"
    for folder in (home, tmp_path / "tmp"):
        folder.mkdir()
    full = FULL.format(free=16384, full=str(home))
    places = {"HOME": str(home), "XDG_CACHE_HOME": "", "NETCL_DEVICE": "pocl", "NETCL_BUILD_PROCESSES": "0"}
    done = run(full + SUM, tmp_path / "tmp", **places)
    assert (done.returncode, done.stdout.strip()) == (0, "[2.0, 2.0, 2.0]"), done.stderr
    assert done.stderr.count("Warning") == 1, done.stderr
    assert "16 KiB are free" in done.stderr
    assert not list((home / ".cache/pocl/kcache").iterdir())
    assert not list((tmp_path / "tmp").iterdir()), "a temporary folder was left"


def test_a_disk_that_fills_up_after_the_start_ends_no_process(pocl, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    later = FULL.format(free=16384, full=str(home)) + "from netcl import ops\ntry: print(ops.mul(x, x))\n"
    later += "except OSError as error: print(error.errno, error.filename, error)"
    places = {"HOME": str(home), "XDG_CACHE_HOME": "", "NETCL_DEVICE": "pocl", "NETCL_BUILD_PROCESSES": "0"}
    done = run(SUM + later, tmp_path, **places)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "[2.0, 2.0, 2.0]"
    assert second.startswith(f"{errno.ENOSPC} {home / '.cache/pocl/kcache'} ")
    assert "16 KiB are free: PoCL needs 4 MiB" in second


def test_a_limit_of_files_is_an_error_and_no_abort(pocl, tmp_path):
    limited = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))\n"
    places = {"HOME": str(tmp_path), "XDG_CACHE_HOME": "", "NETCL_DEVICE": "pocl", "NETCL_BUILD_PROCESSES": "0"}
    done = run(limited + SUM, tmp_path, **places)
    assert done.returncode == 1, done.stderr
    assert "files may have 16 KiB (RLIMIT_FSIZE): PoCL needs 4 MiB" in done.stderr.splitlines()[-1]


def test_pytools_cache_is_not_used(tmp_path):
    """It holds pickled code, in a folder without a check of the owner."""
    done = run(SUM, tmp_path, XDG_CACHE_HOME=str(tmp_path), NETCL_DEVICE="opencl")
    if "DeviceNotFoundError" in done.stderr:
        pytest.skip("needs an OpenCL device")
    assert done.stdout.strip() == "[2.0, 2.0, 2.0]", done.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"netcl", "pocl"}


GARBAGE = {
    "zeros": b"\0" * 100,
    "random": bytes(range(128, 256)) * 40,
    "empty": b"",
    "long": b"/" + b"a" * 100_000,
}
PLATFORMS = """
from netcl.core.device import manager
print([platform.name for platform, _ in manager.discover()])
"""


def icd_folder(tmp_path, kind):
    folder = tmp_path / "vendors"
    folder.mkdir()
    entry = folder / "bad.icd"
    if kind == "fifo":
        os.mkfifo(entry)
    elif kind == "device":
        entry.symlink_to("/dev/zero")
    else:
        entry.write_bytes(GARBAGE[kind])
    return folder


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux, where drivers register in files")
@pytest.mark.parametrize("variable", ["OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"])
@pytest.mark.parametrize(
    "kind",
    ["zeros", "fifo", *(pytest.param(kind, marks=pytest.mark.deep) for kind in ("random", "empty", "long", "device"))],
)
def test_a_file_of_garbage_is_no_driver_and_the_loader_does_not_see_it(kind, variable, tmp_path):
    """On PoCL's loader a file of zeros ended the process with SIGSEGV, a fifo blocked it."""
    try:
        library = metadata.distribution("intel-opencl-rt").locate_file("../../libintelocl.so")
    except metadata.PackageNotFoundError:
        pytest.skip("needs Intel's CPU runtime (netcl-core[intel])")
    folder = icd_folder(tmp_path, kind)
    (folder / "good.icd").write_text(f"{os.path.normpath(str(library))}\n")
    environment = {variable: str(folder), "NETCL_CACHE_DIR": str(tmp_path / "cache")}
    done = run(PLATFORMS, tmp_path, **environment)
    assert done.returncode == 0, done.stderr
    assert "Intel(R) OpenCL" in done.stdout
    assert done.stdout.count("Portable Computing Language") <= 1, "a driver is listed twice"
    assert f"{folder / 'bad.icd'}" in done.stderr


def test_a_file_of_netcls_icd_folder_is_not_taken_from_others(tmp_path):
    """The folder names the libraries to load."""
    done = run(PLATFORMS, tmp_path, NETCL_CACHE_DIR=str(tmp_path / "cache"))
    folders = list((tmp_path / "cache").glob("netcl-icd-*"))
    if not folders:
        pytest.skip("needs a driver that the loader does not find by itself (netcl-core[intel])")
    (folder,) = folders
    platforms = done.stdout
    evil = tmp_path / "evil.so"
    evil.write_text("")
    for file in folder.iterdir():
        file.write_text(f"{evil}\n")
    folder.chmod(0o777)
    done = run(
        "import os\n" + PLATFORMS + "print(os.environ['OCL_ICD_VENDORS'])",
        tmp_path,
        NETCL_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert done.stdout.startswith(platforms), done.stderr
    assert str(folder) not in done.stdout
    assert "mode 0777" in done.stderr


TABLE = """
import json, sys
from netcl.core.tuning import shipped
print(shipped.__file__)
print(len(shipped._content()["drivers"]))
"""


def test_a_shipped_table_is_the_wheels(tmp_path):
    """A file that the wheel's RECORD does not describe chooses no kernels."""
    import base64
    import hashlib

    import netcl.core

    source = Path(netcl.core.__file__).parent.parent
    site = tmp_path / "site"
    shutil.copytree(source, site / "netcl", ignore=shutil.ignore_patterns("__pycache__"))
    about = site / "netcl_core-0.0.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: netcl-core\nVersion: 0.0.0\n")
    table = site / "netcl" / "core" / "backend" / "opencl" / "tuned.json"
    digest = base64.urlsafe_b64encode(hashlib.sha256(table.read_bytes()).digest()).decode().rstrip("=")
    (about / "RECORD").write_text(f"netcl/core/backend/opencl/tuned.json,sha256={digest},1\n")
    whole = run(TABLE, tmp_path, PYTHONPATH=str(site))
    assert whole.stdout.splitlines()[0].startswith(str(site)), whole.stderr
    assert int(whole.stdout.splitlines()[1]) >= 2
    assert "Warning" not in whole.stderr
    content = json.loads(table.read_text())
    content["drivers"][0]["rows"].pop()
    table.write_text(json.dumps(content))
    changed = run(TABLE, tmp_path, PYTHONPATH=str(site))
    assert changed.stdout.splitlines()[1] == "0", changed.stderr
    assert "not the file that netcl-core was installed with" in changed.stderr


def test_a_clock_that_jumps_loses_no_entry(tmp_path, monkeypatch):
    """Set back, it makes a temporary file of a living process no older; set forth, entries stay what they are."""
    cache_files.write(tmp_path / "caches" / "entry", "key", b"content")
    temporary = tmp_path / "caches" / ".living.tmp"
    temporary.write_bytes(b"")
    for now in (0.0, -1.0, time.time() + 60):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        cache_files.remove_stale(temporary)
        assert temporary.exists()
        cache_files.write(tmp_path / "caches" / "other", "key", b"content")
        assert cache_files.read(tmp_path / "caches" / "other", "key") == b"content"
    assert cache_files.read(tmp_path / "caches" / "entry", "key") == b"content"
