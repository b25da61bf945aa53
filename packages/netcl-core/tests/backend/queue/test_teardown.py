"""Shutdown of processes: Ctrl-C idle and in a stuck kernel, waits with a limit, queues finished at exit, forks."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from netcl.core.device import manager
from netcl.core.errors import DeviceNotFoundError, DeviceTimeoutError

cl = pytest.importorskip("pyopencl", reason="OpenCL: pyopencl is not installed")
import numpy as np  # noqa: E402

from netcl.core.backend.opencl.queue import shutdown  # noqa: E402

pytestmark = pytest.mark.usefixtures("default_signals")
posix = pytest.mark.skipif(os.name != "posix", reason="signals and fork of POSIX systems")

SPIN = """
__kernel void spin(__global uint* out, const ulong rounds) {
    uint x = out[0] + 1;
    for (ulong i = 0; i < rounds; i++) { x ^= x << 13; x ^= x >> 17; x ^= x << 5; }
    out[0] = x;
}
"""
PRELUDE = f"""
import os, signal, sys, threading, time
import numpy as np
import pyopencl as cl
from netcl.core.device import manager
from netcl.core.backend.opencl.queue import shutdown as teardown
from netcl.core.backend.opencl.queue.launch import launcher_for
from netcl.core.errors import ForkedProcessError
from netcl.core.memory import get_persistent_pool
queue = manager.default(sys.argv[1]).queue
launcher = launcher_for(queue)
handle = get_persistent_pool(queue).allocate(64)
cl.enqueue_copy(queue, handle.buffer, np.ones(16, np.uint32))
def spin(rounds):
    launcher.launch({SPIN!r}, "spin", (1,), (1,), (handle.buffer, np.uint64(rounds)))
    queue.flush()
spin(1)
queue.finish()
"""
FOREVER = "10**12"


# Seconds for a process that loads a driver and builds its kernels, with an empty cache, on a loaded machine.
PATIENCE = 60


@pytest.fixture(params=["pocl", "intel"])
def driver(request):
    try:
        manager.default(request.param)
    except DeviceNotFoundError:
        pytest.skip(f"the OpenCL driver {request.param} is not installed")
    return request.param


@pytest.fixture
def start(driver, tmp_path):
    running = []

    def start(script, **environment):
        process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(script), driver],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NETCL_CACHE_DIR": str(tmp_path), **environment},
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def interrupt_when_ready(process):
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    return time.monotonic()


@posix
def test_idle_interrupt_is_a_keyboard_interrupt(start):
    process = start(
        """
        assert teardown.install_sigint_handler()
        try:
            print("ready", flush=True)
            time.sleep(30)
        except KeyboardInterrupt:
            print("interrupted")
        """
    )
    interrupt_when_ready(process)
    output, errors = process.communicate(timeout=10)
    assert (output, process.returncode) == ("interrupted\n", 0), errors


@posix
@pytest.mark.parametrize(
    "wait", ["time.sleep(30)", "queue.finish()", "teardown.interruptible_finish(queue, 30)", "blocked()"]
)
@pytest.mark.timing
def test_interrupt_of_a_stuck_kernel_ends_with_130_after_the_grace(start, wait):
    process = start(
        f"""
        teardown.install_sigint_handler()
        teardown.GRACE_S = 0.6
        def blocked():  # no netcl in sight: a blocking copy inside the driver
            cl.enqueue_copy(queue, np.empty(16, np.uint32), handle.buffer)
        spin({FOREVER})
        print("ready", flush=True)
        {wait}
        """
    )
    sent = interrupt_when_ready(process)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "0.6 s after" in errors
    assert 0.5 < time.monotonic() - sent < 4


def test_grace_is_that_of_the_contract():
    assert shutdown.GRACE_S == 3.0


@posix
@pytest.mark.timing
def test_second_interrupt_ends_at_once(start):
    process = start(f"teardown.install_sigint_handler(); spin({FOREVER}); print('ready', flush=True); queue.finish()")
    sent = interrupt_when_ready(process)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert process.returncode == 130
    assert time.monotonic() - sent < 2.5


@posix
def test_previous_handler_is_called_after_the_queue_drained(start):
    process = start(
        """
        def mine(number, frame):
            print("mine", number, flush=True)
            raise SystemExit(7)
        signal.signal(signal.SIGINT, mine)
        teardown.install_sigint_handler()
        print("ready", flush=True)
        time.sleep(30)
        """
    )
    interrupt_when_ready(process)
    output, _ = process.communicate(timeout=10)
    assert process.returncode == 7
    assert "mine 2" in output


@posix
def test_handler_is_not_installed_where_it_must_not_be(start):
    script = """
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "an import installed a handler"
        found = []
        thread = threading.Thread(target=lambda: found.append(teardown.install_sigint_handler()))
        thread.start(); thread.join()
        found.append(teardown.install_sigint_handler())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        found.append(teardown.install_sigint_handler())
        print(*found)
        """
    off, on = start(script, NETCL_SIGINT="0"), start(script)
    assert off.communicate(timeout=PATIENCE)[0] == "False False False\n"
    assert on.communicate(timeout=PATIENCE)[0] == "False True False\n"


@pytest.mark.timing
def test_interruptible_finish_raises_past_its_limit_and_the_work_goes_on(driver):
    queue = manager.default(driver).queue
    program = cl.Program(queue.context, SPIN)
    raw = cl._cl._Program(queue.context, SPIN)
    raw._build(b"", [queue.device])
    del program
    kernel = cl.Kernel(cl.Program(raw), "spin")
    buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 64)
    kernel.set_arg(0, buffer)
    kernel._set_arg_buf_multi((1, np.uint64(400_000_000)))
    shutdown.interruptible_finish(queue)
    event = cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
    queue.flush()
    begin = time.monotonic()
    with pytest.raises(DeviceTimeoutError, match=r"did not finish within 0\.05 s"):
        shutdown.interruptible_finish(queue, timeout=0.05)
    assert time.monotonic() - begin < 0.5
    shutdown.interruptible_finish(queue, timeout=0)
    assert event.command_execution_status == cl.command_execution_status.COMPLETE


def test_core_page_interruptible_finish(driver):
    handle = manager.default(driver)
    shutdown.interruptible_finish(handle.queue, timeout=30.0)
    shutdown.interruptible_finish(handle)
    shutdown.interruptible_finish(manager.default("cpu").queue)


def test_exit_finishes_the_queues_then_runs_the_callbacks(start):
    process = start(
        """
        spin(200_000_000)
        event = cl.enqueue_marker(queue); queue.flush()
        teardown.run_at_exit(lambda: print(event.command_execution_status == 0, flush=True))
        """
    )
    assert process.communicate(timeout=PATIENCE)[0] == "True\n"
    assert process.returncode == 0


def test_exit_waits_for_threads_inside_the_driver(start):
    """One that comes back during the shutdown would abort the process."""
    process = start(
        """
        def slowly(queue, lock):
            time.sleep(0.5)
            queue.finish()
            print("drained", flush=True)
            lock.release()
        teardown._finish_then_release = slowly
        locks = teardown._start_draining()
        assert not teardown._drained(locks, time.monotonic() + 0.05, 1)
        def late():
            time.sleep(0.7)
            print("waited", flush=True)
        assert not teardown._call_interruptibly(late, 0.05)
        """
    )
    output, errors = process.communicate(timeout=PATIENCE)
    assert (sorted(output.split()), process.returncode) == (["drained", "waited"], 0), errors


@pytest.mark.parametrize(
    ("library", "call", "expected"),
    [
        # As the kernel cache reads a file.
        (shutil, "library.copyfileobj(open(reader, 'rb', closefd=False), io.BytesIO())", True),
        (subprocess, "library.run([sys.executable, '-c', 'import sys; sys.stdin.read()'], stdin=reader)", False),
        (threading, "library.Event().wait(2)", False),
    ],
)
def test_exit_waits_for_threads_in_a_library_on_the_way_into_the_driver(library, call, expected):
    reader, writer = os.pipe()
    scope = {"__name__": "netcl.core.example", "library": library, "reader": reader, "sys": sys, "io": io}
    thread = threading.Thread(target=exec, args=(call, scope), daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + PATIENCE
        while (frame := sys._current_frames()[thread.ident]).f_globals["__name__"] != library.__name__:
            assert time.monotonic() < deadline
        assert shutdown._in_driver(frame) == expected
    finally:
        os.close(writer)
        thread.join()  # a process that is starting still needs the reader
        os.close(reader)


@posix
def test_fork_leaves_the_parent_unharmed_and_names_the_error_in_the_child(start):
    process = start(
        """
        import gc, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
        teardown.install_sigint_handler()
        pool = get_persistent_pool(queue)
        spare = pool.allocate(4096)
        child = os.fork()
        if child == 0:
            raised = 0
            for use in (lambda: spin(1), teardown.check_process, lambda: pool.allocate(1 << 21),
                        lambda: teardown.register_queue_for_cleanup(queue)):
                try:
                    use()
                except ForkedProcessError:
                    raised += 1
            del spare, handle
            pool.clear(); gc.collect()  # the destructors must not call the driver
            sys.exit(40 + raised)  # and neither must the exit
        _, status = os.waitpid(child, 0)
        spin(1)
        out = np.empty(16, np.uint32)
        cl.enqueue_copy(queue, out, handle.buffer)
        print(os.waitstatus_to_exitcode(status), int(out[1]))
        """
    )
    output, errors = process.communicate(timeout=PATIENCE)
    assert (output, process.returncode) == ("44 1\n", 0), errors


@posix
def test_no_event_is_released_in_a_child_whatever_holds_it(start):
    """The collector stops tracking tuples and dictionaries that hold events alone: those were not found."""
    process = start(
        """
        import gc, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
        def marker():
            return cl.enqueue_marker(queue)
        class Holder:
            pass
        holder = Holder()
        holder.event = marker()
        held = [(marker(), 1), ((marker(),), 2), {"event": marker()}, marker(), holder]
        def forked():
            local = marker()
            gc.collect()
            gc.collect()  # a tuple in a tuple
            # Events of an old pyopencl are tracked themselves, and so is what holds them.
            assert gc.is_tracked(held[3]) or not any(map(gc.is_tracked, held[:3]))
            events = [lambda: held[0][0], lambda: held[1][0][0], lambda: held[2]["event"], lambda: held[3],
                      lambda: holder.event, lambda: local]
            before = [sys.getrefcount(event()) for event in events]
            child = os.fork()
            if child == 0:
                # One reference more, for good: the destructor of the event never calls the driver.
                os._exit(sum(sys.getrefcount(event()) > count for event, count in zip(events, before)))
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        forked()
        """
    )
    output, errors = process.communicate(timeout=PATIENCE)
    assert (output, process.returncode) == ("6\n", 0), errors


@posix
def test_fork_before_the_first_queue_is_no_fork_of_a_device():
    script = """
import os
from netcl.core.backend.opencl.queue import shutdown as teardown
child = os.fork()
if child == 0:
    teardown.check_process()
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "0\n", done.stderr


def test_no_fork_hooks_where_the_system_has_none(monkeypatch):
    monkeypatch.delattr(os, "register_at_fork", raising=False)
    monkeypatch.setattr(shutdown, "_queues", {})
    monkeypatch.setattr(shutdown, "register_queue", lambda queue: None)

    class Queue:
        int_ptr = 1

    monkeypatch.setattr(shutdown.atexit, "register", lambda call: call)
    shutdown.register_queue_for_cleanup(Queue())
    assert list(shutdown._queues) == [1]


@pytest.mark.parametrize("work", ["ops.add(x, x)", "ops.matmul(x, x).to_host()", "Tensor.from_host(queue, a)"])
def test_an_exit_code_survives_threads_that_launch(start, work):
    """A daemon thread that comes back from the driver while Python shuts down aborted the process."""
    process = start(
        f"""
        from netcl import ops
        from netcl.core import Tensor
        a = np.random.default_rng(0).random((64, 64), np.float32)
        x = Tensor.from_host(queue, a)
        def run():
            while True:
                {work}
        for _ in range(3):
            threading.Thread(target=run, daemon=True).start()
        time.sleep(0.2)
        sys.exit(5)
        """
    )
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (5, "")


def test_tensors_still_work_in_an_exit_handler(start):
    process = start(
        """
        import atexit
        from netcl import ops
        from netcl.core import Tensor
        x = Tensor.from_host(queue, np.ones(3, np.float32))
        atexit.register(lambda: print(ops.add(x, x).to_host().tolist()))
        atexit._run_exitfuncs()
        print(ops.add(x, x).to_host().tolist())
        """
    )
    output, errors = process.communicate(timeout=PATIENCE)
    assert (output, errors, process.returncode) == ("[2.0, 2.0, 2.0]\n" * 2, "", 0)


def test_a_subinterpreter_is_refused():
    """Its signals and locks belong to the main interpreter; a device failed there with "signal only works in main
    thread"."""
    script = """
        try:
            import _interpreters as interpreters
            run = interpreters.exec
        except ImportError:
            import _xxsubinterpreters as interpreters
            run = interpreters.run_string
        other = interpreters.create()
        code = ["try:", "    import netcl.core", "except ImportError as error:", "    print(error, flush=True)"]
        run(other, chr(10).join(code))
        interpreters.destroy(other)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.startswith("netcl runs in the main interpreter of a process alone"), done.stderr
    assert "multiprocessing with spawn" in done.stdout
