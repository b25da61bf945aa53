"""Checks what wheels contain: each its own subpackages, data files and licence, and one `netcl/__init__.py` in all."""

from __future__ import annotations

import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath

from monorepo import ADDED, FOLDER_OF, OWNED, PLUGINS, ROOT, load_packages

KIT = "netcl-conformance"
# The files directly in netcl/.
FRONT = ("__init__.py", "__init__.pyi", "py.typed", "siblings.py")
LEFT_OUT_OF_SECOND_CORE = ("netcl/core/backend/opencl/",)


def check_wheel(path: Path, root: Path = ROOT) -> list[str]:
    """Returns the faults of one wheel, compared with its package's sources under `root`."""
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        metadata_name = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(metadata_name).decode("utf-8"))
    info = metadata_name.rsplit("/", 1)[0]
    name, version = metadata["Name"], metadata["Version"]
    if name == KIT or name in PLUGINS:
        return check_outside(path, name, names, info, metadata["License-Expression"], root)
    package = load_packages(root)[name]
    second_core = version.endswith("+numpy")
    content = {entry for entry in names if not entry.startswith(f"{info}/")}
    sources = {
        f"netcl/{file.relative_to(package.source).as_posix()}"
        for file in package.source.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    if name != "netcl-core":  # there it is for checkouts only
        sources -= {"netcl/__init__.pyi"}
    if second_core:
        sources = {entry for entry in sources if not entry.startswith(LEFT_OUT_OF_SECOND_CORE)}
    faults = [f"lacks {entry}" for entry in sorted(sources - content)]
    faults += [f"has {entry}, which is not in the sources" for entry in sorted(content - sources)]
    for entry in sorted(content):
        parts = PurePosixPath(entry).parts
        added = "/".join(parts[1:]) in ADDED.get(name, ())
        owned = parts[0] == "netcl" and (len(parts) == 2 or parts[1] in OWNED[name] or added)
        if not owned:
            faults.append(f"has {entry}, which {name} does not own")
        elif len(parts) == 2 and not added and (name != "netcl-core" or parts[1] not in FRONT):
            faults.append(f"has {entry}: netcl/ itself belongs to netcl-core")
    faults += [f"lacks netcl/{sub}/py.typed" for sub in OWNED[name] if f"netcl/{sub}/py.typed" not in content]
    if metadata["License-Expression"] != "MIT" or f"{info}/licenses/LICENSE" not in names:
        faults.append("does not say MIT in its metadata, or lacks the LICENSE file")
    if version != package.version + ("+numpy" if second_core else ""):
        faults.append(f"says version {version}, the sources say {package.version}")
    return [f"{path.name} {fault}" for fault in faults]


def check_outside(path: Path, name: str, names: set[str], info: str, license: str | None, root: Path) -> list[str]:
    """Returns the faults of the wheel of netcl-conformance or a plugin: its modules and data, and no file in netcl/."""
    source = root / FOLDER_OF.get(name, "alternatives") / name / "src"
    sources = {
        file.relative_to(source).as_posix()
        for file in source.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    content = {entry for entry in names if not entry.startswith(f"{info}/")}
    faults = [f"lacks {entry}" for entry in sorted(sources - content)]
    faults += [f"has {entry}, which is not in the sources" for entry in sorted(content - sources)]
    faults += [f"has {entry}, which {name} does not own" for entry in sorted(content) if entry.startswith("netcl/")]
    if license != "MIT" or f"{info}/licenses/LICENSE" not in names:
        faults.append("does not say MIT in its metadata, or lacks the LICENSE file")
    return [f"{path.name} {fault}" for fault in faults]


def check(folder: Path, root: Path = ROOT) -> list[str]:
    """Returns the faults of the wheels under `folder`: of all packages and plugins, the second core and the kit."""
    wheels = sorted(folder.rglob("*.whl"))
    faults = [fault for wheel in wheels for fault in check_wheel(wheel, root)]
    packages = len(OWNED) + len(PLUGINS)
    if len(wheels) != packages + 2:
        faults.append(
            f"{folder}: expected wheels of {packages} packages, the second core and {KIT}, got {len(wheels)} wheels"
        )
    return faults


def main() -> int:
    faults = check(Path(sys.argv[1]))
    for fault in faults:
        print(fault, file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    raise SystemExit(main())
