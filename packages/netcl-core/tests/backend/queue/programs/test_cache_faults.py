"""The program cache in trouble: faults at every writing call, folders that are full, read-only or gone, many processes
at once and processes killed while writing.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from netcl.core.device import manager
from netcl.core.errors import DeviceNotFoundError

cl = pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")
from netcl.core.backend.opencl.queue.programs.program_cache import ProgramCache  # noqa: E402

SOURCE = "__kernel void twice(__global float* x) { size_t i = get_global_id(0); x[i] *= 2.0f; }"
posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX systems")


@pytest.fixture(params=["pocl", "intel"])
def queue(request):
    try:
        return manager.default(request.param).queue
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {request.param} is not installed")


def run(queue, cache, source=SOURCE):
    program = cache.get_program(queue.context, source, queue.device)
    values = np.arange(64, dtype=np.float32)
    buffer = cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=values)
    kernel = cl.Kernel(program, "twice")
    kernel.set_arg(0, buffer)
    cl.enqueue_nd_range_kernel(queue, kernel, (64,), None)
    out = np.empty_like(values)
    cl.enqueue_copy(queue, out, buffer)
    assert np.array_equal(out, values * 2)


def descriptors():
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


class FullFile:
    """A file on a full disk: its first write fails, and so does what is left of it at the end."""

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def write(self, data):
        self.file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Fault:
    """Fails at call number ``at`` of all the functions that it replaces, counted together."""

    def __init__(self, at):
        self.at, self.calls, self.raised = at, 0, 0

    def of(self, function, error):
        def called(*args, **kwargs):
            self.calls += 1
            if self.calls == self.at:
                self.raised += 1
                raise OSError(error, os.strerror(error))
            return function(*args, **kwargs)

        return called


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EMFILE], ids=errno.errorcode.get)
def test_a_fault_at_every_call_to_the_disk(queue, tmp_path, monkeypatch, error):
    run(queue, ProgramCache(tmp_path / "first"))  # pyopencl and drivers open files for good at a first launch
    before = descriptors()
    at = 0
    while True:
        at += 1
        assert at < 30, "the work never succeeds"
        fault = Fault(at)
        folder = tmp_path / str(at)
        with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            patch.setattr(tempfile, "mkstemp", fault.of(tempfile.mkstemp, error))
            patch.setattr(os, "replace", fault.of(os.replace, error))
            patch.setattr(os, "scandir", fault.of(os.scandir, error))
            patch.setattr(os, "utime", fault.of(os.utime, error))
            patch.setattr(Path, "mkdir", fault.of(Path.mkdir, error))
            patch.setattr(os, "open", fault.of(os.open, error))
            patch.setattr(os, "stat", fault.of(os.stat, error))
            patch.setattr(Path, "unlink", fault.of(Path.unlink, error))
            cache = ProgramCache(folder)
            run(queue, cache)
            cache.persist()
            run(queue, ProgramCache(folder))
        texts = [str(item.message) for item in warned]
        assert len(texts) <= 1 + (fault.raised == 0), texts
        assert all("kept in memory only" in text for text in texts)
        assert descriptors() == before
        left = [path.name for path in folder.glob(".*.tmp")] if folder.is_dir() else []
        assert not left
        run(queue, ProgramCache(folder))
        if not fault.raised:
            assert not texts
            break
    assert at > 5, "the faults were never met"


def test_a_disk_that_fills_up_while_writing(queue, tmp_path, monkeypatch):
    run(queue, ProgramCache(tmp_path / "first"))  # pyopencl and drivers open files for good at a first launch
    folder = tmp_path / "full"
    real = os.fdopen
    monkeypatch.setattr(os, "fdopen", lambda *args: FullFile(real(*args)))
    cache = ProgramCache(folder)
    before = descriptors()
    with pytest.warns(RuntimeWarning, match="No space left"):
        run(queue, cache)
    cache.persist()  # says nothing again
    assert list(folder.iterdir()) == []
    assert descriptors() == before
    monkeypatch.undo()
    run(queue, ProgramCache(folder))
    assert len(list(folder.glob("*.clbin"))) == 1


@pytest.mark.timing
def test_a_read_only_folder_still_serves_what_it_has(queue, tmp_path, monkeypatch):
    run(queue, ProgramCache(tmp_path))

    def refuse(*args, **kwargs):
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS))

    for module, name in ((tempfile, "mkstemp"), (os, "utime"), (os, "replace")):
        monkeypatch.setattr(module, name, refuse)
    cache = ProgramCache(tmp_path)
    run(queue, cache)
    assert cache.stats.disk_hits == 1
    begin = time.perf_counter()
    with pytest.warns(RuntimeWarning, match="Read-only file system"):
        cache._store(tmp_path / "new.clbin", "new", b"x")
    assert time.perf_counter() - begin < 1.0


def test_an_entry_that_cannot_be_read(queue, tmp_path, monkeypatch):
    run(queue, ProgramCache(tmp_path))
    (entry,) = tmp_path.glob("*.clbin")
    entry.unlink()
    entry.mkdir()
    cache = ProgramCache(tmp_path)
    with pytest.warns(RuntimeWarning, match="kept in memory only"):
        run(queue, cache)
    assert cache.stats.builds == 1


def test_deleted_while_running(queue, tmp_path):
    cache = ProgramCache(tmp_path / "sub")
    run(queue, cache)
    for path in (tmp_path / "sub").iterdir():
        path.unlink()
    (tmp_path / "sub").rmdir()
    run(queue, cache)
    cache.persist()
    assert len(list((tmp_path / "sub").glob("*.clbin"))) == 1
    run(queue, cache, SOURCE + "// another")


SCRIPT = """
import os, signal, sys
from netcl.core.device import manager
from netcl.core.backend.opencl.queue.programs.program_cache import ProgramCache
queue = manager.default(sys.argv[1]).queue
cache = ProgramCache(sys.argv[2])
if sys.argv[3] == "replace":
    os.replace = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[3] == "write":
    real = os.fdopen
    def fdopen(*args):
        file = real(*args)
        file.write(b"netcl-cache-2 half an entry")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    os.fdopen = fdopen
for i in range(4):
    cache.get_program(queue.context, SOURCE + "// %d" % i, queue.device)
print(cache.stats.corrupt, cache.stats.builds + cache.stats.disk_hits, flush=True)
os._exit(0)
""".replace("SOURCE", repr(SOURCE))


def start(driver, folder, die=""):
    command = [sys.executable, "-W", "error", "-c", SCRIPT, driver, str(folder), die]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@posix
@pytest.mark.parametrize("moment", ["write", "replace"])
def test_a_process_killed_while_writing(tmp_path, moment):
    try:
        queue = manager.default("pocl").queue
    except DeviceNotFoundError:
        pytest.skip("the OpenCL driver pocl is not installed")
    killed = start("pocl", tmp_path, moment)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    left = list(tmp_path.glob(".*.tmp"))
    assert len(left) == 1
    assert not list(tmp_path.glob("*.clbin"))
    cache = ProgramCache(tmp_path)
    run(queue, cache)
    assert cache.stats.corrupt == 0
    assert left[0].exists(), "it could still be another process's"
    os.utime(left[0], (1e9, 1e9))
    run(queue, cache, SOURCE + "// later")
    assert not left[0].exists(), "what a killed process left goes after an hour"


def test_eight_processes_at_once(tmp_path):
    try:
        manager.default("pocl")
    except DeviceNotFoundError:
        pytest.skip("the OpenCL driver pocl is not installed")
    running = [start("pocl", tmp_path, "write" if os.name == "posix" and i == 3 else "") for i in range(8)]
    outputs = [process.communicate(timeout=100) for process in running]
    alive = [i for i, process in enumerate(running) if process.returncode == 0]
    assert set(range(8)) - set(alive) <= {3}, [errors for _, errors in outputs]
    assert all(outputs[i][0].strip() == "0 4" for i in alive), outputs
    assert len(list(tmp_path.glob("*.clbin"))) == 4
    assert all(ProgramCache(tmp_path)._load(path, path.stem) is not None for path in tmp_path.glob("*.clbin"))
