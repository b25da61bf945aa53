"""Finds OpenCL drivers, makes drivers installed by pip visible to pyopencl's loader, and advises what to install.

The loader (measured with pyopencl's wheels for Linux, which carry their own ocl-icd) searches the folder that
OCL_ICD_VENDORS names, else /etc/OpenCL/vendors, and in both cases its own folder, where pip's PoCL puts its ``.icd``.
It ignores OCL_ICD_FILENAMES. Intel's pip runtime registers nowhere: its ``.icd`` names a placeholder folder. So netcl
writes a folder with the system's entries and the drivers that the loader would miss, and names it in OCL_ICD_VENDORS.

The loader opens and reads each ``.icd`` file as it is: a file of zeros ends the process with SIGSEGV, a fifo blocks it.
A file without a library is therefore left out of that folder, and a folder of the user's with such a file is replaced
by one without.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from netcl.core import config
from netcl.core.device.drivers import pocl_folder
from netcl.core.process import cache_files

try:
    import pyopencl
except ImportError as error:  # not installed, or no OpenCL loader library on the system
    _pyopencl: ModuleType | None = None
    _pyopencl_problem = str(error)
else:
    _pyopencl = pyopencl
    _pyopencl_problem = ""

_OWN_PREFIX = "netcl-icd-"
_FILTERED_PREFIX = "netcl-vendors-"  # the user's choice, without files that name no library
_MAX_ICD = 4096  # bytes of a file with one path
_SYSTEM_VENDORS = "/etc/OpenCL/vendors"
# Intel's compiler runtime (intel-cmplr-lib-rt) and tbb: pip does not install the first as a dependency, and without
# either the driver's library does not load and the loader skips it without a message.
_INTEL_NEEDS = (
    ("libimf.so", "intel-cmplr-lib-rt"),
    ("libsvml.so", "intel-cmplr-lib-rt"),
    ("libtbb.so.12", "tbb"),
)
_NAMES = (
    ("intelocl_emu", "Intel FPGA emulator"),
    ("intelocl", "Intel CPU runtime"),
    ("igdrcl", "Intel GPU driver"),
    ("pocl", "PoCL"),
    ("nvidia", "NVIDIA"),
    ("amdocl", "AMD"),
    ("rusticl", "Mesa rusticl"),
    ("mesaopencl", "Mesa clover"),
    ("oclgrind", "Oclgrind"),
    ("mali", "ARM Mali"),
)


@dataclass(frozen=True)
class Driver:
    """An OpenCL driver: ``name``, ``library`` as the loader opens it, ``origin``, and ``problem`` if there is one.
    ``library`` is empty for a file without a library, which is hidden from the loader.
    """

    name: str
    library: str
    origin: str
    problem: str = ""


@dataclass(frozen=True)
class _Entry:
    driver: Driver
    shown: bool  # the loader reads it even if OCL_ICD_VENDORS names netcl's folder
    hidden: bool  # the loader does not find it by itself


def require_pyopencl(purpose: str = "an OpenCL device", gpu: bool = False) -> Any:
    """Returns the pyopencl module; raises ImportError with ``pyopencl required`` if it cannot be imported. ``gpu``: the
    device is a GPU, which no driver of pip is for.
    """
    if _pyopencl is None:
        raise ImportError(f"pyopencl required for {purpose} ({_pyopencl_problem}). {_advice(gpu)}")
    return _pyopencl


def _on_linux() -> bool:
    return sys.platform.startswith("linux")


def _driver_name(library: str) -> str:
    stem = Path(library).name.lower()
    return next((name for part, name in _NAMES if part in stem), Path(library).name)


def _library_of(icd: Path) -> tuple[str, str]:
    """Returns the library that an ``.icd`` file names, or "" and the reason why the loader must not read the file."""
    try:
        # A fifo would block here, as it blocks the loader.
        descriptor = os.open(icd, os.O_RDONLY | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return "", "is no regular file"
            content = os.read(descriptor, _MAX_ICD + 1)
        finally:
            os.close(descriptor)
        lines = content.decode().strip().splitlines()
    except OSError as error:
        return "", f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        return "", "does not name a library: it is no text"
    if not lines or not lines[0].strip():
        return "", "does not name a library: it is empty"
    library = lines[0].strip()
    if len(content) > _MAX_ICD or not library.isprintable():
        return "", f"does not name a library: {library[:40]!r}"
    if os.path.isabs(library) and os.path.exists(library) and not os.path.isfile(library):
        return "", f"names {library}, which is no regular file"
    return library, ""


def _identity(library: str) -> str:
    """Returns a key that all names of one driver share: the real path of the file, searched as the linker does."""
    if os.path.isabs(library):
        return os.path.realpath(library)
    system = (f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")
    for folder in (*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *system):
        path = os.path.join(folder, library)
        if folder and os.path.exists(path):
            return os.path.realpath(path)
    return library


def _missing(library: str) -> str:
    return "" if not os.path.isabs(library) or os.path.exists(library) else f"{library} does not exist"


def _intel_problem(library: Path) -> str:
    folders = [library.parent, *(Path(p) for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if p)]
    missing = [(name, wheel) for name, wheel in _INTEL_NEEDS if not any((f / name).exists() for f in folders)]
    if not missing:
        return ""
    wheels = " ".join(sorted({wheel for _, wheel in missing}))
    return f"{', '.join(name for name, _ in missing)} missing, so it does not load: pip install {wheels}"


def _loader_folder() -> Path | None:
    """Returns the folder of the loader in pyopencl's wheel, or None if pyopencl uses the system's loader."""
    if _pyopencl is None or _pyopencl.__file__ is None:
        return None
    folder = Path(_pyopencl.__file__).parent / ".libs"
    return folder if any(folder.glob("libOpenCL*")) else None


def _wheel_files(distribution: str, file_name: str) -> list[Path]:
    """Returns the installed files of that name (or glob) of a distribution; [] if it is not installed."""
    try:
        dist = metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return []
    paths = (Path(str(dist.locate_file(file))) for file in dist.files or () if file.match(file_name))
    return [Path(os.path.normpath(path)) for path in paths if path.exists()]


def _read_folder(folder: Path, origin: str) -> Iterator[Driver]:
    for icd in sorted(folder.glob("*.icd")):
        yield _driver_of(icd, f"{origin} {icd}")


def _driver_of(icd: Path, origin: str) -> Driver:
    library, problem = _library_of(icd)
    return Driver(_driver_name(library) if library else icd.name, library, origin, problem or _missing(library))


def _chosen_vendors() -> str:
    """Returns OCL_ICD_VENDORS as the user set it, or ""; a folder that netcl wrote does not count."""
    vendors = os.environ.get("OCL_ICD_VENDORS", "")
    return "" if Path(vendors).name.startswith(_OWN_PREFIX) else vendors


def _file_names() -> Iterator[Driver]:
    for library in filter(None, os.environ.get("OCL_ICD_FILENAMES", "").split(os.pathsep)):
        yield Driver(_driver_name(library), library, "OCL_ICD_FILENAMES", _missing(library))


def _chosen_by_user(vendors: str) -> Iterator[Driver]:
    """Yields the drivers of the user's OCL_ICD_VENDORS: a folder, a single ``.icd`` file, or a library."""
    folder = _loader_folder()
    if Path(vendors).is_dir():
        yield from _read_folder(Path(vendors), "OCL_ICD_VENDORS")
        if folder:  # a single file would replace the loader's folder
            yield from _read_folder(folder, "pip")
    else:
        origin = f"OCL_ICD_VENDORS {vendors}"
        if vendors.endswith(".icd"):
            yield _driver_of(Path(vendors), origin)
        else:
            yield Driver(_driver_name(vendors), vendors, origin, _missing(vendors))
    if folder is None:
        yield from _file_names()


def _installed() -> Iterator[_Entry]:
    system = Path(os.environ.get("OPENCL_VENDOR_PATH") or _SYSTEM_VENDORS)
    for driver in _read_folder(system, "system"):
        yield _Entry(driver, shown=False, hidden=False)
    # conda registers drivers here, with true paths; the placeholders of Intel's wheel are skipped.
    for driver in _read_folder(Path(sys.prefix) / "etc" / "OpenCL" / "vendors", "environment"):
        if not driver.problem:
            yield _Entry(driver, shown=False, hidden=True)
    for driver in _file_names():
        yield _Entry(driver, shown=False, hidden=_loader_folder() is not None)
    in_prefix = Path(sys.prefix) / "lib" / "libintelocl.so"
    libraries = _wheel_files("intel-opencl-rt", "libintelocl.so")
    for path in libraries or ([in_prefix] if in_prefix.exists() else []):
        driver = Driver("Intel CPU runtime", str(path), "pip package intel-opencl-rt", _intel_problem(path))
        yield _Entry(driver, shown=False, hidden=True)


def _of_loader() -> Iterator[_Entry]:
    """Yields the drivers in the loader's folder, which it always reads, and pip's PoCL if it is installed elsewhere."""
    folder = _loader_folder()
    for driver in _read_folder(folder, "pip") if folder else ():
        yield _Entry(driver, shown=True, hidden=False)
    for path in _wheel_files("pocl-binary-distribution", "libpocl*.so*"):
        if folder is None or not path.parent.samefile(folder):
            driver = Driver("PoCL", str(path), "pip package pocl-binary-distribution")
            yield _Entry(driver, shown=False, hidden=True)


def _entries() -> list[_Entry]:
    if not _on_linux():
        return []  # macOS and Windows loaders have their own registries, which pip's drivers for Linux never enter
    vendors = _chosen_vendors()
    candidates: Iterable[_Entry]
    if vendors:
        candidates = (_Entry(driver, shown=True, hidden=False) for driver in _chosen_by_user(vendors))
    else:
        candidates = (*_installed(), *_of_loader())
    entries: dict[str, _Entry] = {}
    for entry in candidates:
        driver = entry.driver
        entries.setdefault(_identity(driver.library) if driver.library else driver.origin, entry)
    return list(entries.values())


def find_drivers() -> list[Driver]:
    """Returns the drivers that this process's OpenCL loader finds, including failing ones with the reason. Reads files
    only and loads nothing. Empty on macOS and Windows: their loaders keep their own registries.
    """
    return [entry.driver for entry in _entries()]


_lock = threading.RLock()
_ensured = False
_late: list[str] = []  # drivers that the loader missed, as it had read its list before


def _mapped() -> set[str]:
    """Returns the names of the files that this process has mapped, the libraries among them."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    return {line.rpartition("/")[2] for line in lines if "/" in line}


def _missed(entries: list[_Entry]) -> list[str]:
    """Returns the drivers that netcl would show if the loader has loaded others already: it reads its list once."""
    mapped = _mapped()
    loaded = {entry.driver.name for entry in entries if Path(_identity(entry.driver.library)).name in mapped}
    hidden = {entry.driver.name for entry in entries if entry.hidden and not entry.driver.problem}
    return sorted(hidden - loaded) if loaded else []


def late_advice() -> str:
    """Returns why drivers of pip are absent if pyopencl was used before netcl, else ""."""
    if not _late:
        return ""
    return (
        f"{', '.join(_late)} is installed and stays unseen in this process: pyopencl was used before netcl, and its "
        "loader reads the list of drivers once. Call netcl.core.manager.discover() before the first call of pyopencl."
    )


def ensure_drivers() -> None:
    """Makes drivers that pip or conda installed visible to pyopencl's loader; once per process, before its first OpenCL
    call.

    Sets OCL_ICD_VENDORS to a folder in NETCL_CACHE_DIR (a temporary one if that is not writable) if the loader would
    miss a driver; never if the user set OCL_ICD_VENDORS. The drivers that OCL_ICD_FILENAMES names stay in use.
    """
    global _ensured, _late
    if _ensured:
        return
    with _lock:
        if not _ensured:
            entries = _entries()
            _late = _missed(entries)
            if _late:
                config.get_logger().warning("%s", late_advice())
            vendors = _chosen_vendors()
            if not vendors:
                _show([entry for entry in entries if not entry.shown])
            else:
                chosen = [entry.driver for entry in entries if entry.driver.origin.startswith("OCL_ICD_VENDORS")]
                if any(map(_unreadable, chosen)):
                    _name_libraries(_FILTERED_PREFIX, [driver for driver in chosen if driver.library])
            for driver in (entry.driver for entry in entries if _unreadable(entry.driver)):
                config.get_logger().warning("an OpenCL driver is left out: %s %s", driver.origin, driver.problem)
            if any(entry.driver.name == "PoCL" for entry in entries):
                pocl_folder.give_folder()
            _ensured = True


def _unreadable(driver: Driver) -> bool:
    return not driver.library


def _show(entries: list[_Entry]) -> None:
    if not any(_unreadable(entry.driver) or (entry.hidden and not entry.driver.problem) for entry in entries):
        # Nothing to add, and a parent's folder may list drivers that no longer exist.
        os.environ.pop("OCL_ICD_VENDORS", None)
        return
    shown = (entry.driver for entry in entries if not (entry.hidden and entry.driver.problem))
    _name_libraries(_OWN_PREFIX, [driver for driver in shown if driver.library])


def _name_libraries(prefix: str, drivers: list[Driver]) -> None:
    """Sets OCL_ICD_VENDORS to a folder of files that name the libraries of these drivers."""
    libraries = [driver.library for driver in drivers]
    files = {f"{number:02d}-{Path(library).name[:99]}.icd": library + "\n" for number, library in enumerate(libraries)}
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    try:
        folder = _write_in_cache(prefix + digest, files)
    except OSError as error:
        config.get_logger().warning("OpenCL drivers installed by pip stay unseen, no folder can be written: %s", error)
        return
    os.environ["OCL_ICD_VENDORS"] = str(folder)


def _write_in_cache(name: str, files: dict[str, str]) -> Path:
    if config.get("CACHE"):
        cache = Path(config.get("CACHE_DIR"))
        try:
            cache_files.make_private(cache)  # the loader reads the folder by its name: no other user may replace it
            return _write_folder(cache / name, files)
        except OSError as error:  # without a cache of the user's own, use a temporary folder
            cache_files.warn_once(cache, error)
    return _write_folder(cache_files.temporary_folder(_OWN_PREFIX), files)


def _write_folder(folder: Path, files: dict[str, str]) -> Path:
    """Writes exactly these ``.icd`` files to ``folder``; a concurrent reader sees whole files."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.exists():
        cache_files.make_private(folder)
        if {icd.name: _content(icd) for icd in folder.glob("*.icd")} == files:
            return folder
    new = Path(tempfile.mkdtemp(prefix=".new-" + _OWN_PREFIX, dir=folder.parent))
    try:
        for name, text in files.items():
            (new / name).write_text(text, encoding="utf-8")
        try:
            new.rename(folder)
        except OSError:  # it exists: another process made it, or it was damaged
            for icd in folder.glob("*.icd"):
                if icd.name not in files:
                    icd.unlink(missing_ok=True)
            for name in files:
                os.replace(new / name, folder / name)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return folder


def _content(icd: Path) -> str | None:
    """Returns the library of a file in netcl's folder as the file has it, None if it is not a private regular file."""
    status = icd.lstat()
    if not stat.S_ISREG(status.st_mode) or cache_files.distrust(status):
        return None
    return icd.read_text(encoding="utf-8", errors="replace")


def _graphics_cards() -> list[tuple[str, Path]]:
    """Returns (PCI vendor number, device node) of the graphics cards that Linux drives."""
    cards = []
    for vendor in sorted(Path("/sys/class/drm").glob("renderD*/device/vendor")):
        try:
            cards.append((vendor.read_text().strip(), Path("/dev/dri") / vendor.parent.parent.name))
        except OSError:
            continue
    if not any(number == "0x10de" for number, _ in cards) and Path("/proc/driver/nvidia/version").exists():
        cards.append(("0x10de", Path("/dev/nvidia0")))
    return cards


_CARD_DRIVERS = {
    "0x10de": (
        "NVIDIA",
        ("NVIDIA",),
        "NVIDIA's driver with its OpenCL library (libnvidia-opencl, package nvidia-opencl-icd)",
    ),
    "0x1002": ("AMD", ("AMD", "Mesa rusticl"), "rocm-opencl-runtime, or mesa-opencl-icd and RUSTICL_ENABLE=radeonsi"),
    "0x8086": ("Intel", ("Intel GPU driver", "Mesa rusticl"), "the package intel-opencl-icd"),
}


def _card_advice(names: set[str]) -> Iterator[str]:
    for number, node in _graphics_cards():
        if number not in _CARD_DRIVERS:
            continue
        vendor, drivers, package = _CARD_DRIVERS[number]
        if not names.intersection(drivers):
            yield f"There is a graphics card of {vendor} without OpenCL driver: install {package}."
        elif node.exists() and not os.access(node, os.R_OK | os.W_OK):
            yield f"This user may not open {node}: add the user to the group that owns it (often render or video)."


def advice() -> str:
    """Returns what to install on this system so that netcl finds an OpenCL device, or that nothing is missing."""
    return _advice(gpu=False)


def _advice(gpu: bool) -> str:
    """Returns the same; for a ``gpu`` nothing that pip has drivers for."""
    wheels = _on_linux() and platform.machine() in ("x86_64", "AMD64")
    by_pip = 'pip install "netcl-core[cpu]" (PoCL, any CPU) or "netcl-core[intel]" (Intel\'s runtime, faster)'
    lines: list[str] = []
    if _pyopencl is None:
        by_system = 'pip install "netcl-core[opencl]"' + ", and the OpenCL driver of the GPU's maker" * gpu
        lines.append("Install pyopencl: " + (by_pip if wheels and not gpu else by_system) + ".")
    if not _on_linux():
        lines.append(
            "OpenCL drivers come with the graphics driver of the vendor"
            + (
                ", or from conda-forge (pocl)."
                if sys.platform == "darwin"
                else ", CPU drivers from Intel (OpenCL runtime)."
            )
        )
        return " ".join(lines)
    drivers = find_drivers()
    working = {driver.name for driver in drivers if not driver.problem}
    lines += [
        f"{driver.name} ({driver.library or driver.origin}): {driver.problem}." for driver in drivers if driver.problem
    ]
    lines += filter(None, [late_advice()])
    lines += _card_advice(working)
    if not working and _pyopencl is not None:
        other = "install your vendor's OpenCL driver, or PoCL from your distribution (package pocl-opencl-icd)"
        lines.append(f"There is no OpenCL driver: {by_pip if wheels else other}.")
    if wheels and working == {"PoCL"} and _pyopencl is not None:
        lines.append(
            "Intel's runtime trains faster than PoCL on many x86 processors, also AMD's: pip install "
            '"netcl-core[intel]"; `netcl doctor` then measures both.'
        )
    if _chosen_vendors():
        lines.append("OCL_ICD_VENDORS is set, so only the drivers it names are used; unset it to see pip's.")
    return " ".join(lines) or "Nothing is missing."
