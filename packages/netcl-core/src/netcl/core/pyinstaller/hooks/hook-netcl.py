"""PyInstaller's hook for netcl: modules and kernels that are loaded by name, and drivers that pip installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path

from PyInstaller.utils.hooks import collect_data_files, collect_submodules, copy_metadata

# netcl/__init__.py opens its layers at their first use, netcl.core its engines, netcl.trainer its modules.
hiddenimports = collect_submodules("netcl", filter=lambda name: not name.startswith("netcl.core.testing.pytest_plugin"))
datas = collect_data_files("netcl")
binaries: list[tuple[str, str]] = []

# A device is chosen among plugins, extensions and drivers are found, by the metadata of distributions.
named = ["netcl-core", "netcl-autograd", "netcl-distributed", "pocl-binary-distribution", "intel-opencl-rt"]
for plugin in distributions():
    if any(entry.group.startswith("netcl.") for entry in plugin.entry_points):
        named.append(plugin.metadata["Name"])
for name in dict.fromkeys(named):
    try:
        datas += copy_metadata(name)
    except PackageNotFoundError:
        continue

# pyopencl's loader and pip's PoCL are in pyopencl/.libs, which PyInstaller takes for a hidden folder.
try:
    files = distribution("pyopencl").files or ()
    files = [*files, *(distribution("pocl-binary-distribution").files or ())]
except PackageNotFoundError:
    files = []
for file in files:
    place = Path(str(file.locate()))
    if ".libs" in file.parts and place.is_file():
        datas.append((str(place), str(Path(*file.parts[:-1]))))
