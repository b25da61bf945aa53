"""Exit codes of the command ``netcl`` for errors that are explained by their message alone."""

from __future__ import annotations

import sys

from netcl.core.errors import NetclError
from netcl.data import DataFileError, DataLoaderWorkerError
from netcl.io import CheckpointError
from netcl.trainer.cli.config import ConfigFileError


def exit_code(error: Exception) -> int | None:
    """Prints an error that needs no traceback and returns its exit code; returns None for any other error."""
    if isinstance(error, ConfigFileError):
        print(f"netcl: {error}", file=sys.stderr)
        return 2
    if isinstance(error, (NetclError, OSError, CheckpointError, DataFileError, DataLoaderWorkerError, ImportError)):
        print(f"netcl: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return None
