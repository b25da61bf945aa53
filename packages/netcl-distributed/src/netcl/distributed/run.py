"""The launcher: starts a script once per rank, watches the processes, and ends or restarts them all when one fails.

    python -m netcl.distributed.run -n 2 train.py [arguments of the script]
    python -m netcl.distributed.run -n 2 -m package.train [arguments of the module]

Each rank has NETCL_RANK, NETCL_WORLD_SIZE, NETCL_LOCAL_RANK and NETCL_RENDEZVOUS in its environment, with --devices
also NETCL_DEVICE, and the variables that scripts started by torchrun read: RANK, WORLD_SIZE, LOCAL_RANK,
LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Options of torchrun for one host are
accepted.

If a rank dies or raises, the collectives of all others raise RankFailedError; ranks that do not end then are ended.
With --max-restarts the whole group is started again, for scripts that continue from their last checkpoint.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from netcl.distributed.transports.backoff import Deadline
from netcl.distributed.transports.shared import WINDOW, MappedBuffer, create, sweep
from netcl.distributed.transports.shared_buffer import ABORT_RANK, ATTACHED, DONE, FAILED

_POLL_S = 0.01
_GRACE_S = 5.0  # for the others to notice, save their state and end


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line; the arguments after the script belong to the script."""
    parser = argparse.ArgumentParser(
        prog="python -m netcl.distributed.run",
        description=(__doc__ or "").split("\n")[0],
        allow_abbrev=False,  # an option of the script is no abbreviation of one of these
    )
    parser.add_argument(
        "-n",
        *_both("--nproc-per-node"),
        dest="n",
        type=_count,
        default=1,
        metavar="N",
        help="number of processes, or cpu for one for each processor; default 1",
    )
    parser.add_argument("--devices", default="", metavar="A,B", help="NETCL_DEVICE of the ranks, in turn")
    parser.add_argument(
        *_both("--max-restarts"), type=int, default=0, help="how often the group is started again after a fault"
    )
    parser.add_argument("--timeout", type=float, help="seconds a collective waits for the others; default 30")
    parser.add_argument("--window", type=int, default=WINDOW, help="bytes of shared memory for half a rank's window")
    parser.add_argument(
        *_both("--master-port"), type=int, metavar="PORT", help="MASTER_PORT of the ranks; default: a free port"
    )
    for name in ("--nnodes", "--node-rank", "--master-addr", "--rdzv-backend", "--rdzv-endpoint", "--rdzv-id"):
        parser.add_argument(*_both(name), help=argparse.SUPPRESS)
    parser.add_argument("--standalone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-m", "--module", dest="module", action="store_true", help="the script is the name of a module")
    parser.add_argument("script", help="the script to run in each process")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    options = parser.parse_args(arguments)
    if options.n < 1:
        parser.error(f"expected -n of at least 1, got {options.n}")
    if options.nnodes not in (None, "1", "1:1") or options.node_rank not in (None, "0"):
        parser.error("this starts the ranks of one host; write mpiexec -n 8 python -m mpi4py train.py for several")
    if options.max_restarts < 0 or options.window < 4096 or options.window % 64:
        parser.error("--max-restarts is at least 0, --window at least 4096 and a multiple of 64")
    return options


def _both(name: str) -> tuple[str, ...]:
    """Returns an option in both spellings of torchrun: --nproc-per-node and --nproc_per_node."""
    return name, "--" + name[2:].replace("-", "_")


def _count(text: str) -> int:
    """Returns the number of processes of an option."""
    if text in ("cpu", "auto"):
        return os.cpu_count() or 1
    if text.isdecimal():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of processes, and not cpu")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class _Stopped(Exception):
    """The launcher received a signal to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Group:
    """The processes of one start of the group."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.size = options.n
        self.path: Path | None = create(options.n, options.window)
        self.buffer = MappedBuffer(self.path, 0)
        devices = [name for name in options.devices.split(",") if name]
        self.processes: list[subprocess.Popen[bytes]] = []
        # No rank of this launcher listens there: scripts read it.
        self._port = options.master_port or int(os.environ.get("MASTER_PORT") or 0) or _free_port()
        self.code = 0  # of the rank that failed first
        try:
            for rank in range(self.size):
                device = devices[rank % len(devices)] if devices else None
                self.processes.append(self._start(rank, options, device))
        except BaseException:
            self.end()
            raise

    def _start(self, rank: int, options: argparse.Namespace, device: str | None) -> subprocess.Popen[bytes]:
        settings = {"RANK": rank, "WORLD_SIZE": self.size, "LOCAL_RANK": rank, "RENDEZVOUS": self.path}
        if device is not None:
            settings["DEVICE"] = device
        if options.timeout is not None:
            settings["DIST_TIMEOUT_S"] = options.timeout
        names = {f"NETCL_{name}": str(value) for name, value in settings.items()}
        told = {"RANK": rank, "WORLD_SIZE": self.size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": self.size}
        told.update(GROUP_RANK=0, GROUP_WORLD_SIZE=1, MASTER_ADDR="127.0.0.1", MASTER_PORT=self._port)
        names.update((name, str(value)) for name, value in told.items())
        script = ["-m", options.script] if options.module else [options.script]
        command = [sys.executable, "-m", "netcl.distributed.replica", *script, *options.arguments]
        # A session of its own, so that processes started by the script can be ended with it. The pipe shows that this
        # process lives: a rank that reads end of file knows that the launcher is gone.
        return subprocess.Popen(
            command, env={**os.environ, **names}, stdin=subprocess.PIPE, start_new_session=os.name != "nt"
        )

    def watch(self) -> None:
        """Waits until all have ended, or one has failed and the grace period of the others is over."""
        running = dict(enumerate(self.processes))
        grace = None
        while running:
            for rank, process in list(running.items()):
                code = process.poll()
                if code is None:
                    continue
                del running[rank]
                if code == 0:
                    self.buffer.set_word(rank, DONE, 1)
                else:
                    # A rank that raised has reported it itself, and the others may end before it does.
                    self.buffer.abort(FAILED, rank, f"rank {rank} {how(code)}")
                    if not self.code or self.buffer.words[ABORT_RANK] == rank:
                        self.code = exit_code(code)
                    grace = grace or Deadline(_GRACE_S)
            if self.path is not None and all(self.buffer.word(rank, ATTACHED) for rank in range(self.size)):
                self._unlink()
            if grace is not None and grace.expired():
                break
            time.sleep(_POLL_S)

    def end(self) -> None:
        """Ends the remaining processes and their children: first by SIGTERM, later by SIGKILL."""
        for process in self.processes:
            _signal(process, signal.SIGTERM)
        grace = Deadline(_GRACE_S)
        while not grace.expired() and any(process.poll() is None for process in self.processes):
            time.sleep(_POLL_S)
        for process in self.processes:
            _signal(process, signal.SIGTERM if os.name == "nt" else signal.SIGKILL)
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        self._unlink()

    def _unlink(self) -> None:
        """Removes the name of the file once all ranks have opened it: the file is freed with the last process in any
        case.
        """
        if self.path is not None and (os.name != "nt" or all(p.poll() is not None for p in self.processes)):
            self.path.unlink(missing_ok=True)
            self.path = None


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """Sends a signal to a process and all of its session, if any of it is left."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.terminate()
    except (ProcessLookupError, PermissionError):
        return


def how(code: int) -> str:
    """Describes how a process ended."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def exit_code(code: int) -> int:
    """Returns the exit code in a shell of a process that ended with ``code``."""
    return code if code >= 0 else 128 - code


def launch(options: argparse.Namespace) -> int:
    """Runs the group, again after a fault as often as allowed; returns the exit code of the last run."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Stopped(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    code = 0
    try:
        for restart in range(options.max_restarts + 1):
            for path in sweep():
                print(f"netcl: removed {path}, left over from a run that is dead", file=sys.stderr)
            group = _Group(options)
            try:
                group.watch()
            finally:
                group.end()
            code = group.code
            if not code:
                break
            again = restart < options.max_restarts
            left = f"; starting all again ({restart + 1} of {options.max_restarts})" if again else ""
            print(f"netcl: {group.buffer.reason()}{left}", file=sys.stderr, flush=True)
        return code
    except _Stopped as stopped:
        return 128 + stopped.number
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the command: returns 0 for success, 2 for wrong usage, else the exit code of the rank that failed first,
    128 + n for a signal n.
    """
    options = parse(arguments)
    try:
        return launch(options)
    except MemoryError as error:
        print(f"netcl: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
