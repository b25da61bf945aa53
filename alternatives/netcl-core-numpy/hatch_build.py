"""Builds the second netcl-core: the first one's sources without its OpenCL files, under the local version +numpy.

A source archive holds a copy of these sources, so that wheels are built from it outside of the repository too.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent
COPY = HERE / "src" / "netcl"
SOURCE = COPY if COPY.is_dir() else HERE.parents[1] / "packages" / "netcl-core" / "src" / "netcl"
LEFT_OUT = (Path("core/backend/opencl"),)
ABOUT = Path("core/__about__.py")

_first = re.search(r'__version__ = "([^"]+)"', (SOURCE / ABOUT).read_text(encoding="utf-8"))
assert _first is not None, f"{SOURCE / ABOUT} has no __version__"
__version__ = f"{_first[1].removesuffix('+numpy')}+numpy"


def portable_files(source: Path = SOURCE) -> dict[Path, Path]:
    """The files that the second core takes from the first: path on disk -> path under `netcl/`."""
    files = {path: path.relative_to(source) for path in sorted(source.rglob("*")) if path.is_file()}
    return {
        path: inside
        for path, inside in files.items()
        if "__pycache__" not in inside.parts and not any(inside.is_relative_to(folder) for folder in LEFT_OUT)
    }


class PortableSources(BuildHookInterface):
    """Puts the portable files into the wheel or the source archive, with an `__about__.py` that says this version."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        about = Path(self._folder.name) / "__about__.py"
        text = (SOURCE / ABOUT).read_text(encoding="utf-8")
        folder = "netcl" if self.target_name == "wheel" else "src/netcl"
        about.write_text(text.replace(f'"{_first[1]}"', f'"{__version__}"'), encoding="utf-8")
        for path, inside in portable_files().items():
            build_data["force_include"][str(about if inside == ABOUT else path)] = f"{folder}/{inside.as_posix()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._folder.cleanup()
