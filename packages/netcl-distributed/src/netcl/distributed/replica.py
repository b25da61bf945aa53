"""One rank of ``netcl.distributed.run``: joins the group, runs the script as __main__, and reports its failure."""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
from pathlib import Path

from netcl.core import config
from netcl.distributed.transports.shared import MappedBuffer, attach
from netcl.distributed.transports.shared_buffer import FAILED


def _end_with_the_launcher() -> None:
    """Ends this process and the processes that its script started when the launcher is gone: the other end of the pipe
    that is its standard input closes.

    The file of the group is removed too, if a launcher that was killed has left it.
    """
    rendezvous = config.get("RENDEZVOUS")
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def watch() -> None:
        while os.read(pipe, 1):
            continue
        if rendezvous is not None:
            Path(rendezvous).unlink(missing_ok=True)
        if hasattr(os, "killpg") and os.getpgrp() == os.getpid():  # the launcher made it the leader of a session
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=watch, name="netcl-launcher", daemon=True).start()


def _run(buffer: MappedBuffer, script: str, arguments: list[str]) -> None:
    sys.argv = [script, *arguments]
    try:
        if script == "-m":
            sys.argv = arguments
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
            runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            buffer.abort(FAILED, buffer.rank, f"rank {buffer.rank} ended with {end.code}")
        raise
    except BaseException as error:
        # The others need not wait until this process has ended.
        buffer.abort(FAILED, buffer.rank, f"rank {buffer.rank} raised {type(error).__name__}: {error}")
        raise


def main() -> None:
    """Runs ``python -m netcl.distributed.replica script.py [arguments]``, as the launcher calls it."""
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m netcl.distributed.replica script.py [arguments]; see netcl.distributed.run")
    _end_with_the_launcher()
    buffer = attach()
    _run(buffer, sys.argv[1], sys.argv[2:])


if __name__ == "__main__":
    main()
