"""Runs a program written for PyTorch on netcl: its arguments, exit code and tracebacks are those of Python itself."""

from __future__ import annotations

import argparse
import atexit
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, TracebackType

from netcl.torch import tree
from netcl.torch.install import install

_USAGE = "python -m netcl.torch [--report] (script.py | -m module) [arguments], or netcl run ..."
_EXAMPLES = """\
examples:
  netcl run train.py --epochs 3            `import torch` of the script is netcl.torch
  netcl run --report train.py --epochs 3   also prints the names that the script used, and those that were missing
  netcl run -m package.train
"""


def parsed(arguments: list[str]) -> tuple[bool, bool, str, list[str]]:
    """(True to report, True for a module, the script or module, its arguments) of a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m netcl.torch",
        usage=_USAGE,
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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
    """Runs the program; returns 0, or the exit code for a program that is not there. Exceptions of the program are
    raised, SystemExit too, and shown without the frames of the runner.
    """
    report, as_module, program, rest = parsed(sys.argv[1:] if arguments is None else arguments)
    install()
    if report:
        # After the traceback, if there is one.
        atexit.register(lambda: print(report_text(), file=sys.stderr))
    sys.argv = [program, *rest]
    try:
        return _run_module(program) if as_module else _run_script(program)
    except SystemExit:
        raise
    except BaseException:
        _hide_own_frames()
        raise


def _run_module(name: str) -> int:
    _place_first(os.getcwd())
    try:
        found = find_spec(name)
    except ModuleNotFoundError as error:
        found, name = None, error.name or name
    if found is None:
        print(f"netcl.torch: No module named {name}", file=sys.stderr)
        return 1
    runpy.run_module(name, run_name="__main__", alter_sys=True)
    return 0


def _run_script(program: str) -> int:
    path = Path(program)
    if not path.exists():
        print(f"netcl.torch: there is no file {program!r}", file=sys.stderr)
        return 2
    if not path.is_file() or path.read_bytes()[:2] == b"PK":
        # A folder or a zip file with a module __main__.
        runpy.run_path(program, run_name="__main__")
        return 0
    _place_first(str(path.resolve().parent))
    absolute = os.path.abspath(program)
    loader = SourceFileLoader("__main__", absolute)
    module = ModuleType("__main__")
    module.__dict__.update(__file__=absolute, __loader__=loader, __cached__=None, __annotations__={})
    # It stays: threads and functions registered with atexit are the program's, too.
    sys.modules["__main__"] = module
    exec(loader.source_to_code(loader.get_data(absolute), absolute), module.__dict__)
    return 0


def _place_first(folder: str) -> None:
    """Makes a folder the first of sys.path, in place of the current one, which ``-m netcl.torch`` has put there."""
    if getattr(sys.flags, "safe_path", False):
        return
    if sys.path[:1] in ([""], [os.getcwd()]):
        del sys.path[0]
    sys.path.insert(0, folder)


def _hide_own_frames() -> None:
    """Makes the hook that shows an exception, the program's or Python's, begin at the first line of the program."""
    hook = sys.excepthook

    def shown(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        error.__traceback__ = first = _from_program(trace)
        hook(kind, error, first)

    sys.excepthook = shown


def _from_program(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of the command and the runner at its begin; None for a program that has not
    begun.
    """
    own = {__name__, "runpy", "importlib._bootstrap", "importlib._bootstrap_external"}
    first = trace
    while first is not None and first.tb_frame.f_globals.get("__name__") != __name__:
        first = first.tb_next  # frames of the command
    first = first or trace
    before: TracebackType | None = None
    while first is not None:
        if first.tb_frame.f_globals.get("__name__", "") not in own:
            return first
        before, first = first, first.tb_next
    return None if before is None or before.tb_frame.f_globals.get("__name__") != __name__ else before


def report_text() -> str:
    """The names of torch that the program has used, and the missing ones."""
    used, missing = tree.used, tree.missing
    lines = [f"netcl.torch: {len(used)} names of torch were used, {len(missing)} were missing"]
    lines += [f"  used     {name}" for name in sorted(used)] + [f"  missing  {name}" for name in sorted(missing)]
    return "\n".join(lines)
