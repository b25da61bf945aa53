"""Writes the stubs of the package from the op table while it is built in a checkout; a source archive has them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent
WRITER = HERE.parents[1] / "tools" / "write_stubs.py"


class Stubs(BuildHookInterface):
    """Writes the stubs, which git ignores, before the files of an archive or an editable install are chosen."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Returns the requirements of the writer in a checkout, none elsewhere."""
        return ["numpy>=1.24", "platformdirs>=3.0", "opt_einsum>=3.3"] if WRITER.is_file() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Runs the writer for this package."""
        if WRITER.is_file():
            subprocess.run([sys.executable, str(WRITER), "--package", HERE.name], check=True)
