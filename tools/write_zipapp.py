"""Writes a zip file that Python runs: a program with the installed netcl inside; its libraries stay outside."""

from __future__ import annotations

import shutil
import sys
import sysconfig
import tempfile
import zipapp
from pathlib import Path


def main() -> int:
    program, archive = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        installed = Path(sysconfig.get_path("purelib")) / "netcl"
        shutil.copytree(installed, Path(folder) / "netcl", ignore=shutil.ignore_patterns("__pycache__"))
        inside = "import netcl.core\nassert '.pyz' in netcl.core.__file__, netcl.core.__file__\nprint('zipped')\n"
        text = program.read_text(encoding="utf-8").replace('if __name__ == "__main__":\n', f"{inside}if True:\n")
        (Path(folder) / "__main__.py").write_text(text, encoding="utf-8")
        zipapp.create_archive(folder, archive, compressed=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
