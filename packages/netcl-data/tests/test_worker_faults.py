"""Faults of worker processes, each ends in a named error and leaves nothing behind; and whole programs."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from netcl.data import DataLoader, DataLoaderWorkerError, workers
from netcl.data.shared_batch import SharedBatchRingBuffer

pytestmark = pytest.mark.usefixtures("nothing_left")

X = np.random.default_rng(0).random((22, 3, 6, 6), np.float32)


def fault(cases, kind, **more):
    """Runs a loader into its fault: the batches before it, the error, seconds from the last batch (or the start)."""
    loader = DataLoader(cases.Fault(kind), 4, num_workers=2, **more)
    batches, last = [], time.monotonic()
    try:
        for batch in loader:
            batches.append(batch)
            last = time.monotonic()
    except (DataLoaderWorkerError, MemoryError) as error:
        return batches, error, time.monotonic() - last
    finally:
        loader.close()
    return batches, None, 0.0


@pytest.mark.parametrize("kind", ["raise", "raise_local", "unpicklable"])
def test_a_worker_that_raises(kind, cases):
    batches, error, _ = fault(cases, kind)
    assert len(batches) == 3  # all before it
    assert isinstance(error, DataLoaderWorkerError)
    assert error.exitcode is None
    assert error.worker_id in (0, 1)
    if kind == "unpicklable":
        # Collation refuses a lock before anything is pickled.
        assert "ValueError: samples of one batch must have one shape" in str(error)
        return
    assert error.indices == [13]
    assert "sample 13" in str(error)
    assert "the sample is broken" in str(error)
    assert "worker_cases.py" in str(error)
    if kind == "raise":
        assert isinstance(error.__cause__, KeyError)


def test_a_batch_that_cannot_be_sent(cases):
    loader = DataLoader(cases.Fault("unpicklable"), 4, collate_fn=list, num_workers=1)
    with loader, pytest.raises(DataLoaderWorkerError, match="pickle"):
        list(loader)


def test_the_workers_survive_an_exception(cases, assert_equal):
    with DataLoader(cases.Fault("raise"), 4, num_workers=2, seed=1) as loader:
        for _ in range(2):
            with pytest.raises(DataLoaderWorkerError):
                list(loader)
        assert (loader.state_dict()["epoch"], loader.state_dict()["batch"]) == (1, 3)
        iterator = iter(loader)
        assert_equal(next(iterator), np.repeat(np.arange(4, dtype=np.float32), 4).reshape(4, 4))


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX system: signals")
@pytest.mark.parametrize(("kind", "exitcode"), [("kill", -9), ("exit", 3)])
@pytest.mark.parametrize("start_method", [None, "spawn"])
@pytest.mark.timing
def test_a_worker_that_dies(kind, exitcode, start_method, cases):
    _, error, seconds = fault(cases, kind, start_method=start_method)
    assert isinstance(error, DataLoaderWorkerError)
    assert error.exitcode == exitcode
    assert f"exit code {exitcode}" in str(error)
    assert 13 in error.indices
    assert seconds < 5


def test_after_a_death_new_workers_start(cases):
    with DataLoader(cases.Fault("exit"), 4, num_workers=1, prefetch=1) as loader:
        for _ in range(2):
            iterator = iter(loader)
            assert [len(next(iterator)) for _ in range(2)] == [4, 4]
            with pytest.raises(DataLoaderWorkerError, match="exit code 3"):
                list(iterator)


def test_the_error_of_a_broken_pipe_is_not_kept(cases):
    loader = DataLoader(X, 4, num_workers=1)
    next(iter(loader))
    pool = loader._pool
    (worker,) = pool._resources.workers
    worker.process.kill()
    worker.process.join()
    with pytest.raises(DataLoaderWorkerError, match="died") as caught:
        pool._send(worker, "ping")
    assert caught.value.__context__ is None  # the collector of some CPythons crashes on what it holds


@pytest.mark.timing
def test_a_worker_that_hangs_passes_the_timeout(cases):
    _, error, seconds = fault(cases, "hang", timeout=0.5)
    assert isinstance(error, DataLoaderWorkerError)
    assert "timeout=0.5" in str(error)
    assert 13 in error.indices
    assert 0.4 < seconds < 5


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX system: signals")
@pytest.mark.timing
def test_a_stopped_worker_is_silent(cases, monkeypatch):
    monkeypatch.setattr(workers, "PING_AFTER_S", 0.2)
    monkeypatch.setattr(workers, "SILENCE_S", 0.6)
    _, error, seconds = fault(cases, "stop")
    assert isinstance(error, DataLoaderWorkerError)
    assert "no sign of life" in str(error)
    assert 13 in error.indices
    assert seconds < 5


def test_a_slow_worker_is_not_silent(cases, monkeypatch):
    monkeypatch.setattr(workers, "PING_AFTER_S", 0.1)
    monkeypatch.setattr(workers, "SILENCE_S", 0.3)
    told, tell = [], workers.WorkerPool._send
    monkeypatch.setattr(
        workers.WorkerPool, "_send", lambda pool, worker, what: told.append(what) or tell(pool, worker, what)
    )
    batches, error, _ = fault(cases, "slow")
    assert error is None
    assert len(batches) == 10
    # The next one a while after the answer, not at once: the workers need the cores.
    assert 2 <= told.count("ping") < 100


def test_time_in_which_the_program_itself_is_stopped_does_not_count(cases, monkeypatch):
    """Ctrl-Z and fg: the workers were stopped with it, and no limit has passed."""
    stopped = [0.0]
    wait = workers.connection.wait

    def wait_and_stop(sources, timeout):
        found = wait(sources, timeout)
        stopped[0] += 100.0
        return found

    monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + stopped[0]))
    monkeypatch.setattr(workers, "connection", SimpleNamespace(wait=wait_and_stop))
    batches, error, _ = fault(cases, "slow", timeout=30)
    assert error is None
    assert len(batches) == 10


def test_the_limits_add_up_to_the_promised_five_seconds():
    assert 1.5 * workers.PING_AFTER_S + workers.SILENCE_S <= 5


def test_too_little_shared_memory(cases, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    if not Path("/dev/shm").is_dir():
        monkeypatch.setattr("multiprocessing.shared_memory.SharedMemory", full)
    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with DataLoader(X, 4, num_workers=1) as loader, pytest.raises(MemoryError, match="use_shared_mem=False"):
        list(loader)


def test_a_start_that_fails(cases):
    with DataLoader(cases.RefusesToLoad(), 2, num_workers=2) as loader:
        with pytest.raises(DataLoaderWorkerError, match="could not start.*traceback") as caught:
            list(loader)
        assert isinstance(caught.value.__cause__, OSError)
    loader = DataLoader(X, 2, num_workers=1, worker_init_fn=cases.fail_at_start)
    with loader, pytest.raises(DataLoaderWorkerError, match="no luck for 0"):
        list(loader)


_numbers = itertools.count()


def script(tmp_path, text, **options):
    path = tmp_path / f"program_{next(_numbers)}.py"  # its own, as another one may be read at this moment
    path.write_text(textwrap.dedent(text))
    # Threads of a linear algebra library would make Python 3.12 warn of a fork.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", str(path)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux: /proc and /dev/shm")
def test_workers_of_a_killed_program_end(tmp_path):
    program = script(
        tmp_path,
        """
        import os, time
        import numpy as np
        from netcl.data import DataLoader

        class Slow:
            def __len__(self):
                return 10000
            def __getitem__(self, index):
                time.sleep(0.001 if index < 64 else 600)
                return np.zeros(1000, np.float32), os.getpid()

        if __name__ == "__main__":
            pids = set()
            for number, (_, workers) in enumerate(DataLoader(Slow(), 4, num_workers=2)):
                pids |= set(workers.tolist())
                if number == 12:
                    import pathlib
                    assert list(pathlib.Path("/dev/shm").glob(f"netcl-{os.getpid()}-*"))
                    print(*pids, flush=True)
        """,
    )
    pids = [int(pid) for pid in program.stdout.readline().split()]
    assert pids
    program.send_signal(signal.SIGKILL)
    program.wait(10)
    deadline = time.monotonic() + 10

    def alive(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] not in "ZX"
        except (FileNotFoundError, ProcessLookupError):  # before, or while, it is read
            return False

    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, pids))
    while (left := list(Path("/dev/shm").glob(f"netcl-{program.pid}-*"))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []
    program.stdout.close()
    program.stderr.close()


def test_segments_of_a_killed_process_group_go_with_the_next_run(tmp_path):
    if not Path("/dev/shm").is_dir():
        pytest.skip("needs Linux: other systems do not list shared memory")
    text = """
        import numpy as np, sys, time
        from netcl.data.shared_batch import SharedBatchRingBuffer
        if __name__ == "__main__":
            print(SharedBatchRingBuffer({"x": ((4,), "float32")}).attach_info()["name"], flush=True)
            time.sleep(60)
    """
    programs = [script(tmp_path, text, start_new_session=True) for _ in range(2)]
    dead, living = (Path("/dev/shm") / program.stdout.readline().strip() for program in programs)
    os.killpg(programs[0].pid, signal.SIGKILL)  # the resource tracker too
    programs[0].wait(10)
    ring = SharedBatchRingBuffer({"x": ((4,), "float32")})
    try:
        assert living.exists()
        assert not dead.exists()
        assert (Path("/dev/shm") / ring.attach_info()["name"]).exists()
    finally:
        ring.close()
        ring.unlink()
        programs[1].terminate()
        for program in programs:
            program.wait(10)
            program.stdout.close()
            program.stderr.close()


def test_processes_that_make_rings_at_once_keep_their_segments(tmp_path):
    text = """
        from multiprocessing import shared_memory
        from netcl.data.shared_batch import SharedBatchRingBuffer
        if __name__ == "__main__":
            for number in range(400):
                ring = SharedBatchRingBuffer({"x": ((4,), "float32")})
                SharedBatchRingBuffer.attach(ring.attach_info()).close()  # FileNotFoundError if another removed it
                ring.close()
                ring.unlink()
            print("kept", flush=True)
    """
    programs = [script(tmp_path, text) for _ in range(3)]
    try:
        ended = [program.communicate(timeout=60) for program in programs]
        assert [said.strip() for said, _ in ended] == ["kept"] * 3, [error for _, error in ended]
    finally:
        for program in programs:
            program.kill()
            program.wait(10)


def test_a_script_without_a_guard_runs_once_if_workers_do_not_need_it(tmp_path):
    program = script(
        tmp_path,
        """
        import numpy as np
        from netcl.data import DataLoader
        for batch in DataLoader(np.zeros((8, 2)), 2, num_workers=1):
            print(batch.shape)
        """,
    )
    output, errors = program.communicate(timeout=60)
    assert (program.returncode, output, errors) == (0, "(2, 2)\n" * 4, "")


def test_a_script_without_a_guard_that_defines_the_data_set_is_told_so(tmp_path):
    program = script(
        tmp_path,
        """
        from netcl.data import DataLoader, Dataset
        class Zeros(Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, index):
                return 0.0
        for batch in DataLoader(Zeros(), 2, num_workers=1):
            print(batch.shape)
        """,
    )
    output, errors = program.communicate(timeout=60)
    assert program.returncode == 1
    assert output == ""
    assert "DataLoaderWorkerError" in errors
    assert 'if __name__ == "__main__":' in errors.splitlines()[-1]


def test_a_program_that_forgets_to_close_ends_quietly(tmp_path):
    program = script(
        tmp_path,
        """
        import numpy as np
        from netcl.data import DataLoader
        if __name__ == "__main__":
            loader = DataLoader(np.zeros((80, 2)), 2, num_workers=2)
            iterator = iter(loader)
            print(next(iterator).shape)
        """,
    )
    output, errors = program.communicate(timeout=60)
    assert (program.returncode, output, errors) == (0, "(2, 2)\n", "")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux: fork")
def test_forked_workers_need_no_pickling(tmp_path):
    program = script(
        tmp_path,
        """
        import numpy as np
        from netcl.data import DataLoader
        for _ in range(2):
            options = {"num_workers": 2, "start_method": "fork", "transforms": lambda x: x + 1}
            with DataLoader(np.arange(80.0), 8, **options) as loader:
                print(sum(float(batch.sum()) for _ in range(2) for batch in loader))
        """,
    )
    output, errors = program.communicate(timeout=60)
    assert (program.returncode, output, errors) == (0, "6480.0\n6480.0\n", "")


def test_the_number_of_workers_is_bounded():
    with pytest.raises(ValueError, match="num_workers must be at most [0-9]+ on this machine, got 100000"):
        DataLoader(np.zeros((4, 2)), 2, num_workers=100_000)
