"""``netcl init`` and ``netcl completion``: begin a project, and complete commands."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import shlex
import sys
from importlib import resources
from pathlib import Path

from netcl.trainer.cli.config import ConfigFileError

_SCRIPT_FIRST = ("finetune",)  # its configuration reads a file written by the script


def init(chosen: argparse.Namespace) -> int:
    """Writes the files of a template into a folder, and prints the commands to run; refuses to overwrite a file."""
    folder = Path(chosen.folder or chosen.kind)
    source = resources.files("netcl.trainer") / "_templates" / chosen.kind
    # Python files have the suffix .txt there, since they are no modules of the package.
    files = {file.name.replace(".py.txt", ".py"): file for file in source.iterdir()}
    there = [name for name in sorted(files) if (folder / name).exists()]
    if there:
        raise ConfigFileError(f"{folder} has {', '.join(there)} already; give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(files):
        (folder / name).write_bytes(files[name].read_bytes())
        print(f"wrote {folder / name}")
    enter = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    print(f"run it:  {enter}{Path(sys.executable).name} train.py")
    second = "then:" if chosen.kind in _SCRIPT_FIRST else "or:"
    print(f"{second:<9}{enter}netcl train train.toml")
    return 0


def completion(chosen: argparse.Namespace) -> int:
    """Prints a script that completes commands, options and files in a shell."""
    if importlib.util.find_spec("shtab") is None:
        raise ConfigFileError("completion is made by shtab: pip install shtab, or netcl-trainer[completion]")
    from netcl.trainer.cli import parser

    print(importlib.import_module("shtab").complete(parser(), chosen.shell))
    return 0
