"""SharedBatchRingBuffer."""

from __future__ import annotations

import errno
import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest

from netcl.data.shared_batch import SharedBatchRingBuffer

pytestmark = pytest.mark.usefixtures("nothing_left")

SPECS = {"x": ((4, 3), "float32"), "y": ((4,), np.int64), "flag": ((), "bool")}


@pytest.fixture
def ring():
    ring = SharedBatchRingBuffer(SPECS, 3)
    yield ring
    ring.close()
    ring.unlink()


def test_slots_do_not_touch_each_other(ring):
    for slot in range(3):
        views = ring.slot_view(slot)
        views["x"][:], views["y"][:], views["flag"][...] = slot, slot + 10, slot == 1
        assert all(view.ctypes.data % 64 == 0 for view in views.values())
        del views
    for slot in range(3):
        copied = ring.slot_copy(slot)
        assert copied["x"].shape == (4, 3)
        assert copied["x"].dtype == np.float32
        assert (copied["x"] == slot).all()
        assert (copied["y"] == slot + 10).all()
        assert copied["flag"] == (slot == 1)
        copied["x"][:] = -1
    assert (ring.slot_copy(0)["x"] == 0).all()
    assert ring.slot_copy(0, 2)["x"].shape == (2, 3)
    assert ring.nbytes == 3 * (64 + 64 + 64)


def test_attach_sees_the_same_memory(ring):
    other = SharedBatchRingBuffer.attach(ring.attach_info())
    ring.slot_view(2)["y"][:] = [1, 2, 3, 4]
    assert other.slot_copy(2)["y"].tolist() == [1, 2, 3, 4]
    other.close()
    other.close()
    other.unlink()  # not its to remove
    with pytest.raises(ValueError, match="closed"):
        other.slot_view(0)
    assert SharedBatchRingBuffer.attach(ring.attach_info()).K == 3


def test_default_number_of_slots():
    ring = SharedBatchRingBuffer({"x": ((2,), "float32")})
    assert ring.K == 8
    ring.close()
    ring.unlink()


def test_close_refuses_while_a_view_is_alive(ring):
    view = ring.slot_view(0)["x"]
    with pytest.raises(BufferError, match="slot_copy"):
        ring.close()
    del view


def test_an_empty_field_needs_no_memory():
    ring = SharedBatchRingBuffer({"x": ((0, 3), "float32")}, 1)
    assert ring.slot_copy(0)["x"].shape == (0, 3)
    ring.close()
    ring.unlink()


@pytest.mark.parametrize(
    ("specs", "slots", "words"),
    [
        ({}, 2, "at least one field"),
        (SPECS, 0, "K.*0"),
        (SPECS, True, "K.*True"),
        ({"x": ((2,), object)}, 2, "objects"),
    ],
)
def test_wrong_arguments(specs, slots, words):
    with pytest.raises(ValueError, match=words):
        SharedBatchRingBuffer(specs, slots)


def test_outside_slots(ring):
    for slot in (-1, 3):
        with pytest.raises(IndexError, match="ring of 3"):
            ring.slot_view(slot)


def test_too_little_shared_memory(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    if not Path("/dev/shm").is_dir():
        monkeypatch.setattr("multiprocessing.shared_memory.SharedMemory", full)
    with pytest.raises(MemoryError, match="use_shared_mem=False"):
        SharedBatchRingBuffer(SPECS, 3)


def test_another_process_writes(ring, cases):
    process = multiprocessing.get_context("spawn").Process(target=cases.fill_ring, args=(ring.attach_info(),))
    process.start()
    process.join(30)
    assert process.exitcode == 0
    assert (ring.slot_copy(1)["y"] == 7).all()
    assert not ring.slot_copy(0)["y"].any()
    process.close()
