"""A data set that harms its worker; a module of its own, so that workers import it by name."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np

from netcl.data import Dataset


class Fragile(Dataset[Any]):
    """64 samples: number 40 kills its process, raises, or hangs."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        if index == 40:
            if self.what == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            elif self.what == "raises":
                raise ValueError("a sample that cannot be read")
            time.sleep(60)
        return np.full((1, 4, 4), index % 3, np.float32), index % 3
