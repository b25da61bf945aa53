"""Systems without fork, POSIX modules, some signals or pyopencl: hidden here, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

# The parts that other systems lack are removed after the standard library has been set up for the real system.
HIDE = """
import ctypes, logging, multiprocessing, os, pathlib, platform, select, signal, sqlite3, subprocess, sys, tempfile
import types
import numpy.testing, opt_einsum
system, machine = sys.argv[1:3]
for module in (os, signal):  # what subprocess stands on is this system's: Windows starts children in ways of its own
    own = types.ModuleType(module.__name__)
    own.__dict__.update(module.__dict__)
    setattr(subprocess, module.__name__, own)
for name in ("fcntl", "resource", "pwd", "grp", "termios", "syslog"):
    sys.modules[name] = None
lacking = {
    "darwin": (["sched_getaffinity", "register_at_fork", "memfd_create"], []),
    "win32": (
        ["fork", "forkpty", "register_at_fork", "waitpid", "waitstatus_to_exitcode", "getuid", "geteuid", "chown",
         "killpg", "sched_getaffinity", "mkfifo", "statvfs", "sysconf", "set_blocking", "getpgid", "uname", "nice"],
        ["SIGALRM", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGHUP", "setitimer", "siginterrupt", "pthread_kill",
         "pthread_sigmask", "sigwait"],
    ),
    "linux": (["register_at_fork"], []),
}[system]
for module, names in zip((os, signal), lacking):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
sys.platform = system
platform.machine = lambda: machine
"""

NUMPY_ALONE = (
    HIDE
    + """
sys.modules["pyopencl"] = None
import netcl as nc
from netcl.core.device import icd; from netcl.core import config
from netcl.core.testing import check_core
report = check_core()
assert report, str(report)
assert nc.relu(nc.Tensor.from_host([-1.0, 2.0])).to_host().tolist() == [0.0, 2.0]
assert "netcl" in str(config.get("CACHE_DIR"))
assert "pip install" in icd.advice()
for use in (lambda: nc.device("gpu").__enter__(), lambda: nc.KernelSpec("k", [], "").build(None)):
    try:
        use()
    except ImportError as error:
        assert "pyopencl required" in str(error)
    else:
        raise AssertionError("an ImportError is due")
print(report)
print(icd.advice())
"""
)


def run(script, *arguments, **environment):
    # The oldest pyopencl uses the newest pytools in a way that pytools warns of.
    warnings = ("-W", "error", "-W", "ignore:pytools.persistent_dict")
    command = [sys.executable, *warnings, "-c", script, *arguments]
    given = {name: value for name, value in os.environ.items() if name != "NETCL_CACHE_DIR"}
    env = {**given, "NETCL_DEVICE": "auto", **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=180, env=env)


@pytest.mark.parametrize(
    ("system", "machine"),
    [
        ("darwin", "arm64"),
        ("win32", "AMD64"),
        *(pytest.param(*pair, marks=pytest.mark.deep) for pair in (("darwin", "x86_64"), ("win32", "ARM64"))),
        pytest.param("linux", "aarch64", marks=pytest.mark.deep),
    ],
)
def test_netcl_core_on_numpy_alone(system, machine):
    # The user's cache folder of Windows is asked of Windows itself.
    cache = {"NETCL_CACHE_DIR": "netcl-cache"} if system == "win32" else {}
    done = run(NUMPY_ALONE, system, machine, **cache)
    assert done.returncode == 0, done.stderr
    assert "0 failed" in done.stdout
    assert "netcl-core[cpu]" not in done.stdout, "PoCL's and Intel's wheels are for Linux on x86-64"


WITH_OPENCL = (
    "import platformdirs, pyopencl.invoker\n"  # modules that the driver uses are this system's
    + HIDE
    + """
from netcl.core.backend.opencl.queue import shutdown as teardown

class Lacking:
    name = os.name if system != "win32" else "nt"
    def __getattr__(self, name):
        return getattr(os, name)

teardown.os = Lacking()
import numpy as np
from netcl import ops
from netcl.core import Tensor, manager
from netcl.core.kernels.primitives import KernelSpec
sys.platform = "linux"  # the driver is this system's
queue = manager.default("pocl").queue
"""
)


@pytest.fixture
def pocl():
    pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")
    from netcl.core.device import manager
    from netcl.core.errors import DeviceNotFoundError

    try:
        manager.default("pocl")
    except DeviceNotFoundError:
        pytest.skip("the OpenCL driver pocl is not installed")


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("system", ["win32", "linux", pytest.param("darwin", marks=pytest.mark.deep)])
def test_opencl_without_what_the_system_lacks(pocl, system, tmp_path):
    done = run(
        WITH_OPENCL
        + """
x = Tensor.from_host(queue, np.arange(12.0).reshape(3, 4))
assert np.array_equal(ops.matmul(x, x.T).to_host(), np.arange(12).reshape(3, 4) @ np.arange(12).reshape(3, 4).T)
assert teardown.install_sigint_handler() and teardown._watched == (system != "win32")
teardown.interruptible_finish(queue)
from netcl.core.device.drivers.child_probe import verdict
assert verdict("try", "driver", "sys.exit(0)") and not verdict("try", "driver", "sys.exit(10)")
print(x.to_host_async().wait().sum())
""",
        system,
        "any",
        NETCL_CACHE_DIR=str(tmp_path),
    )
    assert (done.stdout, done.returncode) == ("66.0\n", 0), done.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX systems")
@pytest.mark.usefixtures("default_signals")
def test_an_interrupt_is_served_where_no_thread_can_watch_for_it(pocl, tmp_path):
    """As on Windows: the main thread waits in a worker thread, so Ctrl-C is served all the same."""
    script = (
        WITH_OPENCL
        + """
teardown.GRACE_S = 0.5
body = '''uint x = out[0] + 1;
for (ulong i = 0; i < rounds; i++) { x ^= x << 13; x ^= x >> 17; x ^= x << 5; }
out[0] = x;'''
spin = KernelSpec("spin", ["__global int* out", "const ulong rounds"], body).build(queue)
x = Tensor.ones((1,), "int32", queue=queue)
spin.run(queue, 1, 1, x, 1)
x.to_host()
spin.run(queue, 1, 1, x, 10**12)
queue.flush()
print("ready", flush=True)
x.to_host()
"""
    )
    command = [sys.executable, "-c", script, "win32", "AMD64"]
    environment = {**os.environ, "NETCL_CACHE_DIR": str(tmp_path)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 130
        assert "0.5 s after the interrupt" in errors
    finally:
        process.kill()
        process.communicate()
