"""Probes of drivers: children that abort, hang or fail, verdicts on disk, and what follows from them."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from types import SimpleNamespace

import numpy as np
import pytest

from netcl.core import Tensor, config
from netcl.core.backend.opencl.contraction import unit_trial
from netcl.core.backend.opencl.queue import launch
from netcl.core.backend.opencl.queue.builds.build_processes import most_processes
from netcl.core.device import manager
from netcl.core.device.drivers import child_probe, quirks
from netcl.core.tuning import traits

RIGHT, WRONG = "sys.exit(0)", "sys.exit(10)"
ABORTS = "import os\nos.abort()"
HANGS = "import time\ntime.sleep(60)"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(child_probe, "_known", {})
    with config.override(CACHE_DIR=tmp_path):
        yield tmp_path / "probes"


def stored(path):
    """Returns the verdict in a file, after the line with its checksum."""
    return json.loads(path.read_text().partition("\n")[2])


def as_a_new_process():
    child_probe._known.clear()


@pytest.mark.parametrize(("script", "right"), [(RIGHT, True), (WRONG, False)])
def test_the_exit_code_of_the_child_is_the_verdict_and_is_kept(own_cache, monkeypatch, script, right):
    assert child_probe.verdict("try", "driver 1", script) is right
    (path,) = own_cache.glob("try-*.json")
    assert stored(path)["driver"] == "driver 1"
    as_a_new_process()
    assert child_probe.verdict("try", "driver 2", script) is right  # another version is tried itself
    as_a_new_process()
    monkeypatch.setattr(child_probe, "_outcome", lambda *_: pytest.fail("the driver was tried again"))
    assert child_probe.verdict("try", "driver 1", script) is right


@pytest.mark.parametrize(
    ("endings", "right", "kept"),
    [((0, 0, 0), True, 1), ((0, 10, 0), False, 1), ((0, 0, 3), False, 0), ((3, 10, 0), False, 1)],
)
def test_shares_of_a_trial_are_right_only_together(own_cache, tmp_path, endings, right, kept):
    script = f"""
open(sys.argv[1] + "/" + sys.argv[2] + "of" + sys.argv[3], "w").close()
sys.exit({endings}[int(sys.argv[2])])
"""
    assert child_probe.verdict("shared", "driver", script, 60.0, str(tmp_path), shares=3) is right
    assert sorted(path.name for path in tmp_path.glob("*of3")) == ["0of3", "1of3", "2of3"]
    # A wrong share is a verdict; one that says nothing about the driver alone leaves none on disk.
    assert len(list(own_cache.glob("shared-*.json"))) == kept


@pytest.mark.parametrize("shares", [1, 2, 4])
@pytest.mark.parametrize("name", ["wgmma", "mma", "wgmma_3", "mma_3"])
def test_every_case_of_a_trial_is_in_one_share(monkeypatch, name, shares):
    tried = []

    def multiplies(engine, *case):
        tried.append(case)
        return True

    monkeypatch.setattr(unit_trial, "engine_of_driver", lambda key: key)
    monkeypatch.setattr(unit_trial, "_multiplies", multiplies)
    codes = [unit_trial.run_trial(name, "driver", share, shares) for share in range(shares)]
    assert codes == [child_probe.RIGHT] * shares
    assert len(tried) == len(set(tried))
    assert set(tried) == set(unit_trial._cases(name))


def test_a_child_that_aborts_is_a_no(own_cache, caplog):
    assert child_probe.verdict("aborts", "driver", ABORTS) is False
    assert "ended the process" in caplog.text
    (path,) = own_cache.glob("aborts-*.json")
    assert stored(path)["right"] is False


@pytest.mark.parametrize("unexpected", [False, True])
def test_a_wrong_result_is_a_warning_if_it_is_unexpected(own_cache, caplog, unexpected):
    with caplog.at_level("INFO"):
        assert child_probe.verdict("lies", "driver", "raise SystemExit(10)", unexpected=unexpected) is False
    (record,) = (record for record in caplog.records if "the probe lies of driver: wrong result" in record.message)
    assert record.levelname == ("WARNING" if unexpected else "INFO")


def test_a_slower_one_is_a_no_without_a_warning(own_cache, caplog):
    with caplog.at_level("INFO"):
        assert child_probe.verdict("slow", "driver", "raise SystemExit(11)", unexpected=True) is False
    (record,) = (record for record in caplog.records if "slower than without it" in record.message)
    assert record.levelname == "INFO"


@pytest.mark.parametrize("end", ["os.abort()", "os._exit(0)", "time.sleep(60)"])
def test_temporary_folders_of_a_child_are_removed_however_it_ends(own_cache, tmp_path, monkeypatch, end):
    place = tmp_path / "temporary"
    place.mkdir()
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    script = f"import os, tempfile, time\nopen(os.path.join(tempfile.mkdtemp(), 'a'), 'w').close()\n{end}"
    right, _ = child_probe.run_in_child(script, 2.0)
    assert right is (end == "os._exit(0)")
    assert not list(place.iterdir())


def test_a_child_that_hangs_is_ended_and_is_a_no(own_cache, caplog):
    start = time.monotonic()
    assert child_probe.verdict("hangs", "driver", HANGS, timeout=1.0) is False
    assert time.monotonic() - start < 20
    assert "did not end within 1 s" in caplog.text
    caplog.clear()
    as_a_new_process()
    assert child_probe.verdict("hangs", "driver", HANGS, timeout=1.0) is False
    assert "did not end" not in caplog.text, "the verdict on disk was not used"


def test_an_end_that_says_nothing_of_the_driver_is_not_kept(own_cache):
    assert child_probe.verdict("broken", "driver", "import no_such_module") is False
    assert not own_cache.exists()


def test_a_frozen_program_starts_no_child(own_cache, monkeypatch, device):
    """Its executable is the program, which would run once more."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert child_probe.run_in_child("raise SystemExit(0)", 10.0)[0] is None
    with config.override(BUILD_PROCESSES=3):
        assert most_processes(device) == 0
    monkeypatch.undo()
    assert child_probe.run_in_child("raise SystemExit(0)", 10.0)[0] is True
    with config.override(BUILD_PROCESSES=3):
        assert most_processes(device) == 3


def test_a_damaged_verdict_is_tried_again(own_cache):
    assert child_probe.verdict("try", "driver", lambda: True)
    (path,) = own_cache.glob("*.json")
    whole = path.read_text()
    for damage in ("", '{"right": 1', '{"right": 3}', "[]", whole.replace("true", "false")):
        path.write_text(damage)
        as_a_new_process()
        assert child_probe.verdict("try", "driver", lambda: True)
        assert stored(path)["right"] is True


@pytest.mark.filterwarnings("ignore:compiled kernels and measurements are kept in memory only")
def test_without_a_folder_each_process_tries(own_cache):
    own_cache.write_text("a file where the folder would be")
    tries = []
    for _ in range(2):
        as_a_new_process()
        for _ in range(2):
            assert child_probe.verdict("try", "driver", lambda: tries.append(1) is None)
    with config.override(CACHE=False):
        as_a_new_process()
        assert child_probe.verdict("try", "driver", lambda: tries.append(1) is None)
    assert len(tries) == 3


def test_forget_tries_again():
    assert child_probe.verdict("try", "driver", lambda: True)
    child_probe.clear()
    assert child_probe.verdict("try", "driver", lambda: False) is False


@pytest.fixture
def device(handle):
    if handle.backend == "cpu":
        pytest.skip("needs an OpenCL device: NumPy has no driver")
    return handle.device


def test_sixteen_lanes_are_found_out_in_a_child(monkeypatch, device, caplog):
    """LLVM 14 in PoCL 3.0 aborts over them or does not come back, unless it knows the processor's AVX-512; Intel's
    runtime computes right."""
    pocl = "PoCL 3.0" in device.platform.version
    monkeypatch.setattr(quirks, "_TIMEOUT_S", 5.0 if pocl else 30.0)
    right = quirks.sixteen_lanes_work(device)
    if pocl and not right:
        assert "ended the process" in caplog.text or "did not end" in caplog.text
    if device.platform.name.startswith("Intel"):
        assert right


def test_vectors_are_narrower_where_sixteen_lanes_fail(monkeypatch, device):
    monkeypatch.setattr(traits, "sixteen_lanes_work", lambda _: False)

    class Unknown:
        native_vector_width_float = 16
        version = "OpenCL 3.0"

        class platform:
            name = version = "Some new driver"

    assert traits._lanes(Unknown) == 8
    monkeypatch.setattr(traits, "sixteen_lanes_work", lambda _: True)
    assert traits._lanes(Unknown) == 16


def test_kernels_are_in_order_here(device):
    assert not quirks.needs_flush(device)


def test_a_device_out_of_order_gets_a_flush_after_each_kernel(monkeypatch, device):
    """In eager launches and in replays; the probe finds such a device by a chain of kernels that comes out wrong."""
    monkeypatch.setattr(quirks, "_ordered", lambda _: False)
    (other, _) = manager.split(manager.default(device.platform.name), 2)
    flushes = []

    class Queue:
        def __init__(self, queue):
            self._queue = queue

        def __getattr__(self, name):
            return getattr(self._queue, name)

        def flush(self):
            flushes.append(1)
            self._queue.flush()

    x = Tensor.from_host(other, np.arange(5, dtype=np.float32))
    launcher = launch.launcher_for(other.queue)
    assert launcher.flushes
    monkeypatch.setattr(launcher, "queue", Queue(other.queue))
    monkeypatch.setattr(launch.cl, "enqueue_nd_range_kernel", _unwrapped(launch.cl.enqueue_nd_range_kernel))
    eager = (x + x).numpy()
    assert len(flushes) == 1
    recording = launcher.new_recording()
    launcher.recording = recording
    result = x + x
    launcher.recording = None
    assert len(flushes) == 1
    recording.replay()
    assert len(flushes) == 2
    np.testing.assert_array_equal(result.numpy(), eager)


def _unwrapped(enqueue):
    return lambda queue, *rest: enqueue(getattr(queue, "_queue", queue), *rest)


@pytest.mark.parametrize(
    ("versions", "before", "after"),
    [
        (["OpenCL 3.0 PoCL 5.0  Linux, Release", "OpenCL 3.1 LINUX"], None, "cbs"),
        (["OpenCL 3.0 PoCL 6.0"], "loopvec", "loopvec"),
        (["OpenCL 3.0 PoCL 3.0-rc2", "OpenCL 3.0 PoCL 5.0"], None, None),
        (["OpenCL 3.0 PoCL 7.1", "OpenCL 3.0 CUDA 13.0"], None, None),
        ([], None, None),
    ],
)
def test_pocl_that_builds_loops_at_random_gets_another_method(monkeypatch, versions, before, after):
    monkeypatch.setenv("POCL_WORK_GROUP_METHOD", before or "")  # also restores what a call sets
    if before is None:
        monkeypatch.delenv("POCL_WORK_GROUP_METHOD")
    quirks.choose_work_group_method([SimpleNamespace(version=version) for version in versions])
    assert os.environ.get("POCL_WORK_GROUP_METHOD") == after
