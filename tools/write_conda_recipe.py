"""Writes conda/recipe.yaml, one output for each package, from their pyproject files; `--check` compares only."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from monorepo import FOLDER_OF, OWNED, ROOT, load_packages

# The names of conda-forge, if others than the index's.
_NAMES = {"opt-einsum": "opt_einsum"}
_HEAD = """# Written by tools/write_conda_recipe.py for rattler-build: rattler-build build --recipe conda/recipe.yaml
recipe:
  name: netcl-split
  version: "{version}"

source:
  path: ..

outputs:
"""
_OUTPUT = """  - package:
      name: {name}
      version: "{version}"
    build:
      noarch: python
      script: python -m pip install --no-deps --no-build-isolation -vv ./{folder}/{name}
    requirements:
      host:
        - python >=3.10
        - pip
        - hatchling >=1.27
      run:
{run}
    tests:
      - python:
          imports:
{imports}
    about:
      summary: {summary}
      license: MIT
      license_file: {folder}/{name}/LICENSE

"""
# conda has no extras: this output brings PoCL, as pip install "netcl-trainer[cpu]" does.
_WITH_DRIVER = """  - package:
      name: netcl-cpu
      version: "{version}"
    build:
      noarch: generic
    requirements:
      run:
        - netcl-trainer =={version}
        - pyopencl >=2024.1
        - pocl >=3.0
        - ocl-icd-system
    about:
      summary: netcl with PoCL, an OpenCL driver for CPUs
      license: MIT
      license_file: LICENSE
"""


def recipe(root: Path = ROOT) -> str:
    """Returns the text of the recipe for the packages under ``root``."""
    packages = load_packages(root)
    parts = []
    for name, package in packages.items():
        run = ["python >=3.10", *dict.fromkeys(map(_conda, package.dependencies))]
        parts.append(
            _OUTPUT.format(
                name=name,
                folder=FOLDER_OF[name],
                version=package.version,
                summary=_quoted(package.project["description"]),
                run="\n".join(f"        - {line}" for line in run),
                imports="\n".join(f"            - netcl.{sub}" for sub in OWNED[name]),
            )
        )
    head = _HEAD.format(version=packages["netcl-core"].version)
    return head + "".join(parts) + _WITH_DRIVER.format(version=packages["netcl-trainer"].version)


def _conda(requirement: str) -> str:
    """Returns `tomli>=2.0; python_version < '3.11'` -> `tomli >=2.0`: a noarch package has one list for all Pythons."""
    name, condition = re.match(r"([\w.-]+)([^;]*)", requirement.replace(" ", "")).groups()  # type: ignore[union-attr]
    return f"{_NAMES.get(name.lower(), name.lower())} {condition}"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "'") + '"'


def main() -> int:
    path = ROOT / "conda" / "recipe.yaml"
    if "--check" in sys.argv:
        return int(path.read_text(encoding="utf-8") != recipe())
    path.parent.mkdir(exist_ok=True)
    path.write_text(recipe(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
