"""The folder of the hook that PyInstaller reads (entry point ``pyinstaller40``) when a program imports netcl."""

from __future__ import annotations

from pathlib import Path


def hook_dirs() -> list[str]:
    """Returns the folder of ``hook-netcl.py``. It is no package, so that its module is no module of netcl."""
    return [str(Path(__file__).parent / "hooks")]
