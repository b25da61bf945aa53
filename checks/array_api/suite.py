"""Runs array-api-tests, the test suite of the array API standard, on ``netcl.array_api``; compares with lists.

``python checks/array_api/suite.py FOLDER [--examples N] [--write] [pytest's arguments]``, FOLDER being a checkout of
github.com/data-apis/array-api-tests with its submodule ``array-api``, at the commit that noxfile.py names; NETCL_DEVICE
chooses the device. The tests that fail have to be those of ``failures.txt``, and those that the suite skips those of
``skips.txt``; both give the reasons. ``--write`` replaces the lists. The suite needs hypothesis, ndindex, pytest and
pytest-json-report.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
FAILURES, SKIPS = HERE / "failures.txt", HERE / "skips.txt"

# The suite takes a maximum over the complex dtypes, of which there are none here.
WITHOUT_COMPLEX = {
    "array_api_tests/dtype_helpers.py": (
        "[(dt, dtype_nbits[dt]) for dt in complex_dtypes], key=lambda x: x[1]\n",
        "[(dt, dtype_nbits[dt]) for dt in complex_dtypes], key=lambda x: x[1], default=(None, 0)\n",
    ),
    "array_api_tests/test_signatures.py": (
        "dh.dtype_to_name[dh.widest_complex_dtype]",
        'dh.dtype_to_name.get(dh.widest_complex_dtype, "complex128")',
    ),
}
# Loaded by pytest in the suite's folder: writes down every outcome that is not a pass, with its message.
RECORDER = """
import json, os

found = {"passed": 0, "failed": {}, "skipped": {}}


def pytest_runtest_logreport(report):
    if report.failed:
        found["failed"][report.nodeid] = str(getattr(report.longrepr, "reprcrash", report.longrepr))[-400:]
    elif report.skipped:
        found["skipped"][report.nodeid] = str(report.longrepr[2] if report.longrepr else "")
    elif report.when == "call":
        found["passed"] += 1


def pytest_sessionfinish():
    with open(os.environ["FOUND"], "w") as file:
        json.dump(found, file)
"""
COMPLEX = "the case is one of complex numbers, which no dtype holds"
UNDEFINED = "the function is tested on complex dtypes alone, and there are none to draw from"
# Reasons by a part of the test's name, or else of the suite's message; what has none is a fault of netcl.
REASONS = {
    "real(x_i)": COMPLEX,
    "imag(x_i)": COMPLEX,
    "::test_vecdot_conj": "the test makes a complex array of its own",
    "::test_conj": UNDEFINED,
    "::test_imag": UNDEFINED,
    "::test_real": UNDEFINED,
    "fft": "the extension fft is missing",
    "ARRAY_API_TESTS_VERSION >= 2025.12": "the test is one of version 2025.12 of the standard",
    "flaky": "the suite skips the test for every library, as flaky",
}


def reason_of(test: str, message: str) -> str:
    """The reason for the lists, or else the message, which is then to be mended in netcl."""
    return next((reason for part, reason in REASONS.items() if part in test or part in message), message)


def read(path: Path) -> dict[str, str]:
    """The tests of a list with their reasons: a line that begins with # is the reason for the lines after it."""
    found, reason = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line:
            found[line] = reason
    return found


def write(path: Path, tests: Mapping[str, str]) -> None:
    """Writes a list, by reason."""
    lines: list[str] = []
    for reason in sorted(set(tests.values())):
        lines += [f"# {reason}", *sorted(test for test in tests if tests[test] == reason), ""]
    path.write_text("\n".join(lines), encoding="utf-8")


def run(folder: Path, examples: int, others: list[str]) -> dict[str, dict[str, str]]:
    """Runs a copy of the suite and returns its outcomes."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "suite"
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".git", ".hypothesis"))
        for name, (old, new) in WITHOUT_COMPLEX.items():
            text = (copy / name).read_text(encoding="utf-8")
            if text.count(old) != 1:
                sys.exit(f"{name} is not that of the commit that noxfile.py names")
            (copy / name).write_text(text.replace(old, new), encoding="utf-8")
        (copy / "netcl_recorder.py").write_text(RECORDER, encoding="utf-8")
        chosen = {
            "ARRAY_API_TESTS_MODULE": "netcl.array_api",
            "ARRAY_API_TESTS_SKIP_DTYPES": "complex64,complex128",
            "FOUND": str(copy / "found.json"),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(copy), os.environ.get("PYTHONPATH")])),
        }
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "netcl_recorder", "-p", "no:cacheprovider"]
        command += ["--disable-deadline", f"--max-examples={examples}", *(others or ["array_api_tests"])]
        subprocess.run(command, cwd=copy, env=os.environ | chosen, check=False)
        return json.loads((copy / "found.json").read_text(encoding="utf-8"))


def compared(found: Mapping[str, str], path: Path, kind: str, all_ran: bool) -> int:
    """Prints the differences from a list and returns their number."""
    listed = read(path)
    missing = sorted(listed.keys() - found.keys()) if all_ran else []
    for test in sorted(found.keys() - listed.keys()):
        print(f"{kind}, not in {path.name}: {test}\n    {found[test]}")
    for test in missing:
        print(f"not {kind} any more, remove from {path.name}: {test}")
    return len(found.keys() - listed.keys()) + len(missing)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--examples", type=int, default=25)
    parser.add_argument("--write", action="store_true")
    given, others = parser.parse_known_args()
    found = run(given.folder, given.examples, others)
    failed, skipped = found["failed"], found["skipped"]
    print(f"{found['passed']} passed, {len(failed)} failed, {len(skipped)} skipped")
    if given.write:
        for path, tests in ((FAILURES, failed), (SKIPS, skipped)):
            write(path, {test: reason_of(test, message) for test, message in tests.items()})
        return 0
    return bool(compared(failed, FAILURES, "failed", not others) + compared(skipped, SKIPS, "skipped", not others))


if __name__ == "__main__":
    sys.exit(main())
