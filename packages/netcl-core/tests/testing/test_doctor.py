"""The doctor: its table, its exit code, and drivers that end the process or hang while it examines them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

import netcl.ops
from netcl.core import Tensor, __main__, config
from netcl.core.device import manager
from netcl.core.engine.registry import cpu_engine
from netcl.core.ops_table.dispatch import TABLE, make_row
from netcl.core.testing import conformance, doctor
from netcl.core.testing.op_families import QUICK, families, family_of, ops_of

CHILD = """
import json, os, sys, time
selector, full, share, jobs = json.loads(sys.argv[1])
def say(message):
    print(json.dumps(message), flush=True)
print("a driver's own words")
jobs = [["", "map", "float32"], ["", "rows", "float32"], ["", "copy", "float32"]] if jobs is None else jobs
say({"jobs": jobs})
for _, family, _ in jobs:
    if family == "rows":
        sys.stderr.write("LLVM ERROR")
        %s
    say({"passed": 3, "error": 1e-7, "failed": {}})
"""


def fake(at_rows):
    return [sys.executable, "-c", CHILD % at_rows]


def test_numpy_is_examined_in_a_child():
    found = doctor.examine("cpu")
    assert found, [row for row in found.rows if row.failed]
    assert {row.job[1] for row in found.rows} == set(families())
    assert all(row.passed and row.error < 2e-2 for row in found.rows)


def test_a_driver_that_ends_the_process_costs_one_row():
    found = doctor.examine("fake", child=fake("os.abort()"))
    assert [row.job[1] for row in found.rows] == ["map", "rows", "copy"]
    assert not found
    assert "ended the process" in found.rows[1].failed["the driver"]
    assert found.rows[2].passed == 3
    assert not found.rows[2].failed


def test_a_driver_that_hangs_costs_one_row(monkeypatch):
    monkeypatch.setattr(doctor, "_QUICK_S", 2.0)
    found = doctor.examine("fake", child=fake("time.sleep(60)"))
    assert [bool(row.failed) for row in found.rows] == [False, True, False]
    assert found.rows[1].failed["the driver"] == "hung for 2 s"


def test_shares_of_the_families_are_all_of_them():
    shares = [doctor.examine("cpu", share=(number, 2)) for number in range(2)]
    assert all(shares)
    assert all(share.rows for share in shares)
    whole = doctor.Examination.of(shares)
    pairs = conformance.families_of(manager.default("cpu"))
    assert [row.job[1:] for row in whole.rows] == pairs
    assert whole.seconds == max(s.seconds for s in shares)


def test_a_device_that_cannot_be_opened_is_a_problem():
    found = doctor.examine("no such device")
    assert not found
    assert "no such device" in found.problem


def test_a_wrong_kernel_is_shown_and_exits_with_one(monkeypatch, capsys, tmp_path):
    wrong = doctor.Row(("", "matmul", "float16"), 7, 0.25, {"matmul": "[(3, 5)]: AssertionError"})
    well = doctor.Row(("", "matmul", "float32"), 7, 2e-6, {})

    def examine(selector, name, full, share):
        assert full
        return doctor.Examination(selector, name, [well, wrong][share[0] :: share[1]])

    monkeypatch.setattr(doctor, "examine", examine)
    page = tmp_path / "doctor.html"
    assert __main__.main(["doctor", "--full", "--html", str(page)]) == 1
    text = page.read_text(encoding="utf-8")
    assert '<td class="wrong">WRONG</td>' in text
    assert "matmul float16: matmul: [(3, 5)]: AssertionError" in text
    assert "netcl-core" in text.partition("This machine")[2]
    shown = capsys.readouterr().out
    assert "2.0e-06   2.5e-01     14  WRONG" in shown
    assert "matmul float16: matmul: [(3, 5)]: AssertionError" in shown
    monkeypatch.setattr(
        doctor, "examine", lambda selector, name, full, share: doctor.Examination(selector, name, [well])
    )
    assert __main__.main(["doctor"]) == 0
    assert "every kernel family is right" in capsys.readouterr().out


def test_two_owners_of_one_file_are_wrong(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "find_conflicts", lambda: ["netcl 0.1 and netcl-core 0.1 both own netcl/core/x.py"])
    monkeypatch.setattr(doctor, "examine", lambda selector, name, full, share: doctor.Examination(selector, name, []))
    assert __main__.main(["doctor"]) == 1
    assert "both own" in capsys.readouterr().out


def test_without_a_platform_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "examine", lambda selector, name, full, share: doctor.Examination(selector, name, []))
    monkeypatch.setattr(doctor, "_devices", lambda: iter(()))
    monkeypatch.setattr(doctor.icd, "advice", lambda: 'pip install "netcl-core[cpu]"')
    assert __main__.main(["doctor"]) == 0
    assert 'pip install "netcl-core[cpu]"' in capsys.readouterr().out
    with config.override(PLATFORM_FILTER="nobody's"):
        assert __main__.main(["doctor"]) == 0
    assert 'NETCL_PLATFORM_FILTER="nobody\'s"' in capsys.readouterr().out


def test_the_command_in_a_process_of_its_own():
    # A default device that is not there is no reason to find NumPy wrong.
    environment = {**os.environ, "NETCL_PLATFORM_FILTER": "nobody's", "NETCL_DEVICE": "gpu"}
    command = [sys.executable, "-m", "netcl.core", "doctor"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for family in families():
        assert family in done.stdout
    bad = subprocess.run([*command, "--ful1"], capture_output=True, text=True, timeout=60)
    assert bad.returncode == 2


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX systems")
@pytest.mark.usefixtures("default_signals")
def test_an_interrupt_ends_the_doctor_and_its_children(tmp_path):
    child = f"import os, time; open({str(tmp_path / 'pid')!r}, 'x').write(str(os.getpid())); time.sleep(60)"
    script = (
        "from netcl.core.testing import doctor\n"
        f"doctor._CHILD = {child!r}\ndoctor._devices = lambda: iter(())\ndoctor.run()"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 30
    while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()) and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.5)  # on a loaded machine the parent may still be within Popen, which ends no child
    start = time.monotonic()
    parent.send_signal(signal.SIGINT)
    _, errors = parent.communicate(timeout=30)
    assert parent.returncode != 0
    assert "KeyboardInterrupt" in errors
    assert time.monotonic() - start < 20
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_families_cover_the_table():
    assert set(netcl.ops.__all__) & set(TABLE)
    assert families()[:3] == ("map", "reduce", "rows")
    assert set(QUICK) <= set(families())
    assert all(
        ops_of(family, "float32", quick) for family in families() for quick in (True, False) if family != "random"
    )
    for family, names in QUICK.items():
        assert all(family_of(TABLE[name]) == family for name in names if family != "map")


@pytest.mark.parametrize("family", families())
def test_a_wrong_result_is_noticed(monkeypatch, family):
    original = conformance.expected
    monkeypatch.setattr(conformance, "expected", lambda *args: tuple(one + 1 for one in original(*args)))
    monkeypatch.setattr(conformance, "_DRAWS", {"float32": (("uniform", "float32"),)})
    monkeypatch.setattr(
        conformance, "assert_close", _one_more(conformance.assert_close) if family == "random" else _plain
    )
    report = conformance.check_family(cpu_engine(), family)
    assert not report
    assert family == "random" or report.error > 1e-2


def _plain(found, wanted, dtype):
    import numpy as np

    np.testing.assert_allclose(np.asarray(found.numpy(), float), np.asarray(wanted, float), 1e-3, 1e-3)


def _one_more(check):
    return lambda found, wanted, dtype: check(found, wanted + 1, dtype)


def test_a_family_that_comes_later_is_examined_too(monkeypatch):
    def swap(x: Tensor) -> Tensor:
        """Returns the same."""
        return x.clone()

    swap.__module__ = "netcl.ops.swapping"
    with monkeypatch.context() as patch:
        patch.setitem(TABLE, "swap", make_row(swap, "call", domain=netcl.ops.flip.row.domain))
        assert "swapping" in families()
        assert ops_of("swapping", "float32", quick=True) == ("swap",)
        assert not conformance.check_family(cpu_engine(), "swapping"), "it does not flip"
    assert "swapping" not in families()


def test_pairs_of_families_and_dtypes_of_a_device():
    pairs = conformance.families_of(manager.default("cpu"))
    assert ("map", "float64") in pairs
    assert ("matmul", "int32") not in pairs
    assert ("copy", "bool") in pairs
    report = conformance.check_device(manager.default("cpu"))
    assert report
    assert report.passed > 120
