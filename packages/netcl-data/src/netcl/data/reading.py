"""Opens a data file, and turns every error caused by its contents into a DataFileError that names the file.

This is the only place of netcl.data where errors of gzip, csv, NumPy, Pillow and pickles become DataFileError.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from netcl.data.budget import Budget, Meter
from netcl.data.errors import DataFileError

# Formats that compress may take this many times the size of the file.
COMPRESSED = 16


@contextmanager
def opened(
    source: str | os.PathLike[str] | bytes, budget: Budget | None = None, factor: int = 2, kind: str = "file"
) -> Iterator[tuple[BinaryIO, Meter]]:
    """Opens a regular file of this ``kind``, or the bytes of one; yields the binary file and the meter of its contents.

    Raises OSError if it cannot be opened, and DataFileError, a ValueError, with the file for any error of the block.
    """
    if isinstance(source, bytes):
        name, size, file = f"a file of {len(source):,} bytes", len(source), cast(BinaryIO, io.BytesIO(source))
    else:
        name = str(Path(source))
        # O_NONBLOCK: opening a pipe would wait for its writer.
        handle = os.open(source, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            os.close(handle)  # os.fdopen would leave a folder's open
            raise DataFileError(f"{name} cannot be read: it is no regular file")
        size, file = status.st_size, os.fdopen(handle, "rb")
    with file:
        meter = (budget or Budget()).meter(size, factor)
        try:
            yield file, meter
        except Exception as error:
            if isinstance(error, ValueError) and name in str(error):
                if isinstance(error, DataFileError):
                    raise
                raise DataFileError(str(error)) from error  # it is about this file, with its line or column
            named = "" if isinstance(error, (ValueError, OSError)) and str(error) else f"{type(error).__name__}: "
            raise DataFileError(f"{name} cannot be read, it is no {kind}: {named}{str(error)[:2000]}") from error
