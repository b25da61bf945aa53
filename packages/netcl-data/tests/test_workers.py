"""DataLoader with worker processes: the same numbers, and every fault ends in a named error with nothing left."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from netcl.data import DataLoader, DataLoaderWorkerError, workers
from netcl.data.augment import cutout
from netcl.data.filters import horizontal_flip, random_crop

pytestmark = pytest.mark.usefixtures("nothing_left")

X = np.random.default_rng(0).random((22, 3, 6, 6), np.float32)


def noisy(cases, dataset, num_workers, **more):
    return DataLoader(
        dataset,
        4,
        seed=3,
        num_workers=num_workers,
        transforms=[cases.add_noise, horizontal_flip()],
        augment=[cases.scale_batch, random_crop(1, 6), cutout(2)],
        **more,
    )


@pytest.mark.parametrize("num_workers", [1, 3])
def test_numbers_do_not_depend_on_the_workers(num_workers, cases, assert_equal):
    inline = noisy(cases, cases.Noisy(), 0, shuffle=True)
    expected = [list(inline), list(inline)]
    with noisy(cases, cases.Noisy(), num_workers, shuffle=True) as loader:
        assert_equal([list(loader), list(loader)], expected)


@pytest.mark.parametrize("more", [{"use_shared_mem": False}, {"start_method": "spawn"}, {"prefetch": 5}])
def test_nor_on_how_they_work(more, cases, assert_equal):
    expected = list(noisy(cases, cases.Noisy(), 0))
    with noisy(cases, cases.Noisy(), 2, **more) as loader:
        assert_equal(list(loader), expected)


@pytest.mark.parametrize("drop_last", [False, True])
def test_streams(drop_last, cases, assert_equal):
    inline = noisy(cases, cases.NoisyStream(), 0, drop_last=drop_last)
    expected = [list(inline), list(inline)]
    with noisy(cases, cases.NoisyStream(), 2, drop_last=drop_last) as loader:
        assert_equal([list(loader), list(loader)], expected)
        state = loader.state_dict()
        assert (state["epoch"], state["batch"]) == (2, 0)


def test_arrays_and_batches_that_do_not_fit_a_slot(cases, assert_equal):
    with DataLoader((X, np.arange(22)), 4, shuffle=True, seed=1, num_workers=2) as loader:
        assert_equal(list(loader), list(DataLoader((X, np.arange(22)), 4, shuffle=True, seed=1)))
    with DataLoader(cases.Ragged(), 4, collate_fn=cases.pad, num_workers=2) as loader:
        assert_equal(list(loader), list(DataLoader(cases.Ragged(), 4, collate_fn=cases.pad)))
    growing = [[0], [1, 2], [3, 4, 5], *([[6, 7, 8, 9]] * 6), [2]]
    with DataLoader(X, batch_sampler=growing, num_workers=2, prefetch=1) as loader:
        assert_equal(list(loader), list(DataLoader(X, batch_sampler=growing)))


def test_batches_belong_to_the_user(cases):
    with DataLoader(X, 2, num_workers=1, prefetch=1) as loader:
        batches = list(loader)
        for batch in batches:
            batch += 1  # writable
        assert (np.concatenate(batches) == X + 1).all()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_resume_counts_the_batches_handed_over(num_workers, stream, cases, assert_equal):
    def make(workers_of_it):
        return noisy(cases, cases.NoisyStream(60) if stream else cases.Noisy(60), workers_of_it)

    with make(2) as loader, make(num_workers) as resumed:
        list(loader)
        iterator = iter(loader)
        for _ in range(10):
            next(iterator)
        state = loader.state_dict()
        assert (state["epoch"], state["batch"]) == (1, 10)
        resumed.load_state_dict(state)
        assert_equal(list(resumed), list(iterator))
        assert_equal(next(iter(resumed)), next(iter(loader)))


def test_an_abandoned_epoch_and_an_overtaken_iteration(cases, assert_equal):
    inline = noisy(cases, cases.Noisy(), 0)
    next(iter(inline))
    with noisy(cases, cases.Noisy(), 2) as loader:
        old = iter(loader)
        next(old)
        assert_equal(list(loader), list(inline))
        with pytest.raises(RuntimeError, match="iterated anew"):
            next(old)


def test_info_and_init_function(cases):
    with DataLoader(cases.WhoAmI(), 1, num_workers=2, worker_init_fn=cases.leave_a_mark) as loader:
        first = list(loader)
        second = list(loader)
    ids = [int(batch[0][0]) for batch in first]
    assert set(ids) == {0, 1}
    assert all(int(batch[1][0]) == 2 and int(batch[2][0]) == 100 + int(batch[0][0]) for batch in first)
    processes = [{int(batch[3][0]) for batch in batches} for batches in (first, second)]
    assert processes[0] == processes[1] and os.getpid() not in processes[0]  # they stay


def test_close_and_collection_end_the_workers(cases):
    loader = DataLoader(X, 4, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    processes = [worker.process for worker in loader._pool._resources.workers]
    sentinels = [os.dup(process.sentinel) for process in processes]
    loader.close()
    loader.close()
    with pytest.raises(RuntimeError, match="closed"):
        next(iterator)
    assert len(list(loader)) == 6  # starts new ones
    del loader, iterator
    gc.collect()
    for sentinel in sentinels:
        os.close(sentinel)


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
    assert isinstance(error, DataLoaderWorkerError) and error.exitcode is None and error.worker_id in (0, 1)
    if kind == "unpicklable":
        # Collation refuses a lock before anything is pickled.
        assert "ValueError: samples of one batch must have one shape" in str(error)
        return
    assert error.indices == [13]
    assert "sample 13" in str(error) and "the sample is broken" in str(error) and "worker_cases.py" in str(error)
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
def test_a_worker_that_dies(kind, exitcode, start_method, cases):
    _, error, seconds = fault(cases, kind, start_method=start_method)
    assert isinstance(error, DataLoaderWorkerError)
    assert error.exitcode == exitcode and f"exit code {exitcode}" in str(error)
    assert 13 in error.indices
    assert seconds < 5


def test_a_worker_that_hangs_passes_the_timeout(cases):
    _, error, seconds = fault(cases, "hang", timeout=0.5)
    assert isinstance(error, DataLoaderWorkerError) and "timeout=0.5" in str(error) and 13 in error.indices
    assert 0.4 < seconds < 5


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX system: signals")
def test_a_stopped_worker_is_silent(cases, monkeypatch):
    monkeypatch.setattr(workers, "PING_AFTER_S", 0.2)
    monkeypatch.setattr(workers, "SILENCE_S", 0.6)
    _, error, seconds = fault(cases, "stop")
    assert isinstance(error, DataLoaderWorkerError) and "no sign of life" in str(error) and 13 in error.indices
    assert seconds < 5


def test_a_slow_worker_is_not_silent(cases, monkeypatch):
    monkeypatch.setattr(workers, "PING_AFTER_S", 0.1)
    monkeypatch.setattr(workers, "SILENCE_S", 0.5)
    batches, error, _ = fault(cases, "slow")
    assert error is None and len(batches) == 10


def test_the_limits_add_up_to_the_promised_five_seconds():
    assert workers.PING_AFTER_S + workers.SILENCE_S <= 5


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


def test_what_cannot_be_sent_to_workers_is_refused(cases):
    loader = DataLoader(X, 2, num_workers=2, transforms=lambda image: image)
    with pytest.raises(TypeError, match="top of a module.*num_workers=0"):
        iter(loader)


def test_start_methods(cases, monkeypatch):
    with pytest.raises(ValueError, match="start_method.*'thread'"):
        iter(DataLoader(X, 2, num_workers=1, start_method="thread"))
    monkeypatch.setitem(sys.modules, "pyopencl", object())
    assert workers.choose_start_method(None) in ("forkserver", "spawn")
    if "fork" in workers.multiprocessing.get_all_start_methods():
        with pytest.raises(ValueError, match="fork.*pyopencl"):
            iter(DataLoader(X, 2, num_workers=1, start_method="fork"))
        monkeypatch.delitem(sys.modules, "pyopencl")
        assert workers.choose_start_method("fork") == "fork"


def test_long_use_leaks_nothing(cases):
    descriptors = Path("/proc/self/fd")

    def open_descriptors():
        gc.collect()
        return len(list(descriptors.iterdir())) if descriptors.is_dir() else 0

    with DataLoader(X, 4, num_workers=1) as loader:
        list(loader)
        before = open_descriptors()
        for _ in range(20):
            list(loader)
        assert open_descriptors() <= before
    for _ in range(3):
        with DataLoader(X, 4, num_workers=1) as loader:
            list(loader)
    assert open_descriptors() <= before


def script(tmp_path, text):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(text))
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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
        except FileNotFoundError:
            return False

    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, pids))
    while list(Path("/dev/shm").glob("netcl-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    program.stdout.close()
    program.stderr.close()


def test_a_script_without_a_guard_is_told_so(tmp_path):
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
    assert program.returncode == 1 and output == ""
    assert "DataLoaderWorkerError" in errors and 'if __name__ == "__main__":' in errors.splitlines()[-1]


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
