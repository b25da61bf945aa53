"""Runs a program written for PyTorch on netcl: its arguments, exit code and tracebacks are those of Python itself."""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from pathlib import Path
from types import TracebackType

from netcl.torch import tree
from netcl.torch.install import install

_USAGE = "python -m netcl.torch [--report] (script.py | -m module) [arguments]"


def parsed(arguments: list[str]) -> tuple[bool, bool, str, list[str]]:
    """(True to report, True for a module, the script or module, its arguments) of a command line."""
    parser = argparse.ArgumentParser(prog="python -m netcl.torch", usage=_USAGE, description=__doc__)
    parser.add_argument(
        "--report", action="store_true", help="print at the end which names of torch were used or missing"
    )
    parser.add_argument("-m", dest="module", metavar="module", help="run a module as a script")
    # Options end at the script, or at the module's name: what follows is the program's.
    at, report = 0, False
    while at < len(arguments) and arguments[at] == "--report":
        report, at = True, at + 1
    if at + 1 < len(arguments) and arguments[at] == "-m":
        return report, True, arguments[at + 1], arguments[at + 2 :]
    if at >= len(arguments) or arguments[at].startswith("-"):
        parser.parse_args(arguments[at:] or ["--help"])
        parser.error("give a script or -m module")
    return report, False, arguments[at], arguments[at + 1 :]


def main(arguments: list[str] | None = None) -> int:
    """Runs the program and returns its exit code."""
    report, as_module, program, rest = parsed(sys.argv[1:] if arguments is None else arguments)
    install()
    try:
        return _run(as_module, program, rest)
    finally:
        if report:
            print(report_text(), file=sys.stderr)


def _run(as_module: bool, program: str, rest: list[str]) -> int:
    sys.argv = [program, *rest]
    try:
        if as_module:
            sys.path.insert(0, "")
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            path = Path(program)
            if not path.exists():
                print(f"netcl.torch: there is no file {program!r}", file=sys.stderr)
                return 2
            sys.path.insert(0, str(path.resolve().parent))
            runpy.run_path(program, run_name="__main__")
    except Exception as error:  # noqa: BLE001  # the program's own, printed as Python prints it
        _print(error)
        return 1
    return 0


def _print(error: BaseException) -> None:
    """Prints the traceback as Python does, from the first line of the program."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        one.__traceback__ = _from_program(one.__traceback__)
        one = one.__cause__ or one.__context__
    traceback.print_exception(type(error), error, error.__traceback__)


def _from_program(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of the runner at its begin."""
    first = trace
    while first is not None and first.tb_frame.f_globals.get("__name__", "") in (__name__, "runpy"):
        first = first.tb_next
    return first or trace


def report_text() -> str:
    """The names of torch that the program has used, and the missing ones."""
    used, missing = tree.used, tree.missing
    lines = [f"netcl.torch: {len(used)} names of torch were used, {len(missing)} were missing"]
    lines += [f"  used     {name}" for name in sorted(used)] + [f"  missing  {name}" for name in sorted(missing)]
    return "\n".join(lines)
