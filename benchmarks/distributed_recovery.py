"""Makes the last of some ranks fail in every way that the tests know, and prints what the others saw, and when.

python benchmarks/distributed_recovery.py [-n 3] [--mpi-python FILE [--options="--with-ft ulfm"]]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FAULTS = Path(__file__).resolve().parents[1] / "packages/netcl-distributed/tests/ranks/faults.py"
TIMEOUT_S = 3
NAMES = {
    "kill": "killed by SIGKILL in a collective",
    "raise": "raises",
    "end": "ends early",
    "sleep": f"sleeps, timeout {TIMEOUT_S} s",
    "other": "calls another collective",
    "shape": "sends another shape",
    "dtype": "sends another dtype",
    "twice": "dies twice, --max-restarts 2",
}
_LINE = re.compile(r"([\d.]+) rank (\d+) (.*)")


def row(fault: str, size: int, launcher: list[str]) -> str:
    """A line of the table: the fault, what the others saw after how many seconds, and the end of the job."""
    env = {**os.environ, "NETCL_DEVICE": "cpu", "NETCL_DIST_TIMEOUT_S": str(TIMEOUT_S)}
    with tempfile.TemporaryDirectory() as folder:
        arguments = [folder] if fault == "twice" else []
        done = subprocess.run(
            [*launcher, str(FAULTS), fault, *arguments],
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        ended = time.time()
    said = [(float(m[1]), int(m[2]), m[3]) for line in done.stdout.splitlines() if (m := _LINE.match(line))]
    failed = max(when for when, _, what in said if what == "fails")
    others = [(when - failed, what) for when, rank, what in said if rank != size - 1 and what != "fails"]
    errors = [(when, what) for when, what in others if what != "is well" and when >= 0]
    seen = errors[-1][1][:150] if errors else "nothing: the job is ended"
    if len(errors) < len(others) and fault == "twice":
        seen += f", and are well again after {max(when for when, _ in others):.1f} s"
    after = f"{max(when for when, _ in errors):.2f}" if errors else ""
    return f"| {NAMES[fault]} | {seen} | {after} | {ended - failed:.1f} | {done.returncode} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("-n", type=int, default=3, help="number of ranks")
    parser.add_argument("--mpi-python", metavar="FILE", help="a Python with netcl and mpi4py: ranks of its MPI")
    parser.add_argument("--options", default="", help="further options of mpiexec")
    options = parser.parse_args()
    launcher = [sys.executable, "-m", "netcl.distributed.run", "-n", str(options.n), "--max-restarts"]
    faults = list(NAMES)
    if options.mpi_python is not None:
        program = str(Path(options.mpi_python).with_name("mpiexec"))
        launcher = [program, *options.options.split(), "-n", str(options.n), options.mpi_python, "-m", "mpi4py"]
        faults.remove("twice")
    print(f"| rank {options.n - 1} | the others see | after s | all over after s | exit code |\n|-|-|-|-|-|")
    for fault in faults:
        restarts = [] if options.mpi_python is not None else ["2" if fault == "twice" else "0"]
        print(row(fault, options.n, [*launcher, *restarts]), flush=True)


if __name__ == "__main__":
    main()
