"""Programs: built once per process and context, their binaries kept on disk for the next process.

``ProgramCache.get_program(context, source, device, options="")`` gives a built cl.Program, from memory, from disk, or
by a build. ``default_cache()`` is the one that the process shares. Nothing here needs a queue.

One file per program in the folder, named by the key: a hash of source, options, platform, device, driver version and
the version of netcl-core. It is written to a temporary file and renamed, and opens with a checksum of key and binary: a
process killed while writing, eight processes at once, a bad disk, or an entry copied over another's cost a rebuild. The
checksum is not a luxury: given half of one of its own binaries, PoCL 3.0 crashes the process. Folder and files belong
to the user alone (``netcl.core.process.cache_files``); others are not read.

A program that was built here is stored at once, and stored again by ``persist()`` at exit, with what drivers compile at
the first launch. Of PoCL no binaries are taken unless a folder is asked for: it compiles each kernel at its first
launch for that local size and keeps that by itself, and compiles it once more, for any size, when asked for a binary,
which takes longer than all the rest (docs/design/pocl.md).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from netcl.core import config
from netcl.core.__about__ import __version__
from netcl.core.backend.opencl.queue import shutdown
from netcl.core.backend.opencl.queue.programs import build_progress, in_line
from netcl.core.backend.opencl.queue.programs.declarations import WITHOUT_HEADER, declared
from netcl.core.device.capabilities import type_of
from netcl.core.device.drivers.child_probe import driver_key
from netcl.core.device.drivers.half_vectors import half_vectors
from netcl.core.device.drivers.kernel_objects import raw_program
from netcl.core.device.drivers.llvm_processor import multiplies_and_adds
from netcl.core.errors import KernelBuildError
from netcl.core.process import cache_files
from netcl.core.process.opencl import cl

_SUFFIX = ".clbin"
_KEPT = b"kept by the driver"  # in place of the binary of a program that its driver keeps
_STAMPS_AT_ONCE = 256
_MIB = 1 << 20


@dataclass(frozen=True)
class ProgramStats:
    """The sources of programs: memory ``hits``, ``disk_hits``, ``builds`` (programs that the driver keeps are built,
    too, in milliseconds); entries found ``corrupt``; the programs ``in_memory`` now.
    """

    hits: int = 0
    disk_hits: int = 0
    builds: int = 0
    corrupt: int = 0
    in_memory: int = 0


class ProgramCache:
    """Built programs in memory and their binaries on disk; thread-safe, and safe for several processes at once.

    ``cache_dir`` None: the folder ``programs`` in NETCL_CACHE_DIR, for drivers that do not keep programs by themselves,
    and NETCL_CACHE=0 keeps all in memory. ``max_bytes`` (None: NETCL_CACHE_MAX_MB) bounds the folder, the least
    recently used entry goes first. A folder that cannot be used
    costs one warning, and programs are kept in memory alone.
    """

    def __init__(self, cache_dir: str | os.PathLike[str] | None = None, max_bytes: int | None = None) -> None:
        if cl is None:
            raise ImportError("pyopencl required: ProgramCache builds OpenCL programs")
        self._given_dir = None if cache_dir is None else Path(cache_dir)
        self._max_bytes = max_bytes
        # Re-entrant, as all locks here: a signal handler or a finalizer may need a program while one is built.
        self._lock = threading.RLock()
        self._building: dict[Any, AbstractContextManager[bool]] = {}
        self._programs: dict[Any, Any] = {}
        self._unpersisted: list[tuple[Path, str, Any]] = []
        self._stats = ProgramStats()
        self._stored = 0

    def get_program(self, context: Any, source: str, device: Any, options: str = "") -> Any:
        """Returns the program of ``source`` built for ``device`` with ``options``; raises KernelBuildError."""
        options = _with_division(source, options, device)
        source = _with_half_vectors(source, device)
        key = (context.int_ptr, device.int_ptr, source, options)
        program = self._programs.get(key)
        if program is None:
            lock = self._building.setdefault(key, threading.RLock())
            with lock:  # a second thread that needs the same program waits for it
                program = self._programs.get(key)
                if program is None:
                    program = self._programs[key] = self._load_or_build(context, source, device, options)
                    return program
        self._count(hits=1)
        return program

    def has(self, context: Any, source: str, device: Any, options: str = "") -> bool:
        """True if ``get_program`` need not build the program: it is in memory, on disk, or kept by its driver."""
        options = _with_division(source, options, device)
        source = _with_half_vectors(source, device)
        if (context.int_ptr, device.int_ptr, source, options) in self._programs:
            return True
        folder = self.folder
        # Path.exists raises where the name of the folder is too long.
        return folder is not None and os.path.exists(folder / (_key(source, options, device) + _SUFFIX))

    @property
    def is_empty(self) -> bool:
        """True if the folder has no programs, so that a first step must build all. False if it cannot be read."""
        folder = self.folder
        if folder is None:
            return False
        try:
            return not any(name.endswith(_SUFFIX) for name in os.listdir(folder))
        except FileNotFoundError:
            return True
        except OSError:
            return False

    def shares(self, device: Any) -> bool:
        """True if this process finds the programs that another process has built for the device."""
        folder = self.folder
        if folder is None or not (not _is_pocl(device) or self._given_dir is not None or _kept_by_driver(device)):
            return False
        try:
            cache_files.make_private(folder)
        except OSError:
            return False
        return os.access(folder, os.W_OK)

    def compiles_at_launch(self, device: Any) -> bool:
        """True if the driver compiles a kernel at its first launch, and keeps it for other processes."""
        return self._given_dir is None and _kept_by_driver(device)

    def clear(self) -> None:
        """Forgets the programs in memory and deletes the entries on disk."""
        with self._lock:
            self._programs.clear()
            self._building.clear()
            self._unpersisted.clear()
        folder = self.folder
        if folder is not None:
            for path in folder.glob("*" + _SUFFIX):
                cache_files.remove(path)

    @property
    def stats(self) -> ProgramStats:
        """The counters now."""
        return replace(self._stats, in_memory=len(self._programs))

    @property
    def folder(self) -> Path | None:
        """The folder of the entries, None if the cache is not on disk."""
        return cache_files.shared_folder("programs") if self._given_dir is None else self._given_dir

    def persist(self) -> None:
        """Stores the programs built in this process again, now with the code that the driver made at their launches."""
        with self._lock:
            waiting, self._unpersisted = self._unpersisted, []
        for path, key, program in waiting:
            self._store(path, key, _binary(program))

    def _count(self, **increments: int) -> None:
        with self._lock:
            now = {name: getattr(self._stats, name) + count for name, count in increments.items()}
            self._stats = replace(self._stats, **now)

    def _load_or_build(self, context: Any, source: str, device: Any, options: str) -> Any:
        shutdown.check_process()
        if config.get("LOG") == "kernels":
            config.get_logger().info("for %s, options %r:\n%s", str(device.name).strip(), options, source)
        folder, kept = self.folder, self.compiles_at_launch(device)
        key = "" if folder is None else _key(source, options, device)
        path = None if folder is None else folder / (key + _SUFFIX)
        binary = None if path is None or kept else self._load(path, key)
        if binary is not None:
            program = _from_binary(context, device, binary, options)
            if program is not None:
                self._count(disk_hits=1)
                return program
            self._count(corrupt=1)
        known = path is not None and kept and cache_files.is_own(path)  # the driver has compiled it before
        with contextlib.nullcontext() if known else build_progress.shown(str(device.name).strip()):
            program = _from_source(context, device, source, options)
        self._count(builds=1)
        if path is not None and kept:
            if not known:
                self._store(path, key, _KEPT)
        elif path is not None:
            self._store(path, key, _binary(program))
            with self._lock:
                self._unpersisted.append((path, key, program))
        return program

    def _load(self, path: Path, key: str) -> bytes | None:
        try:
            binary = cache_files.read(path, key)
        except FileNotFoundError:
            return None
        except cache_files.DamagedEntryError:
            self._count(corrupt=1)
            cache_files.remove(path)
            return None
        except OSError as error:
            cache_files.warn_once(path.parent, error, self._given_dir)
            return None
        with contextlib.suppress(OSError):  # the time of use orders the entries; a read-only folder keeps its own
            os.utime(path)
        return binary

    def _store(self, path: Path, key: str, binary: bytes) -> None:
        if not binary:  # a driver that gives no binaries
            return
        try:
            cache_files.write(path, key, binary)
            self._stored += 1
            # To bound the folder takes the longer the more entries it has, and a stamp is small.
            if binary is not _KEPT or self._stored % _STAMPS_AT_ONCE == 0:
                self._bound(path.parent)
        except OSError as error:
            cache_files.warn_once(path.parent, error, self._given_dir)

    def _bound(self, folder: Path) -> None:
        """Deletes the least recently used entries beyond the bound, and files left by killed processes."""
        limit = config.get("CACHE_MAX_MB") * _MIB if self._max_bytes is None else self._max_bytes
        entries = []
        for entry in os.scandir(folder):
            with contextlib.suppress(FileNotFoundError):  # another process deletes too
                status = entry.stat()
                if entry.name.endswith(_SUFFIX):
                    entries.append((status.st_mtime_ns, status.st_size, entry.path))
                elif cache_files.temporary_of(entry.name):
                    cache_files.remove_stale(Path(entry.path))
        excess = sum(size for _, size, _ in entries) - limit
        for _, size, name in sorted(entries):
            if excess <= 0:
                return
            cache_files.remove(Path(name))
            excess -= size


_ROUNDED_DIVISION = "-cl-fp32-correctly-rounded-divide-sqrt"
_ROUNDED_DIVISION_BIT = 1 << 7  # of single_fp_config


def _with_division(source: str, options: str, device: Any) -> str:
    """Returns the options with division rounded once, for texts that say FP_CONTRACT OFF.

    A GPU's own division ends in a product, which NVIDIA's assembler merges into an addition after it in spite of the
    pragma: ``a / b + c`` in one kernel then differs from two (a quarter of the results, measured on an H200).
    """
    if "FP_CONTRACT OFF" not in source or "relaxed-math" in options or type_of(device) != "gpu":
        return options
    rounds = int(device.single_fp_config) & _ROUNDED_DIVISION_BIT
    return f"{options} {_ROUNDED_DIVISION}".strip() if rounds and _ROUNDED_DIVISION not in options else options


def _with_half_vectors(source: str, device: Any) -> str:
    """Returns the text with PoCL's loads and stores of vectors of halves replaced (``device.drivers.half_vectors``)."""
    if "_half" not in source or not _is_pocl(device):
        return source
    return half_vectors(source, device.platform.version) + source


def _key(source: str, options: str, device: Any) -> str:
    parts = (__version__, driver_key(device), options, source, in_line.TEXT if _is_pocl(device) else "")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _is_pocl(device: Any) -> bool:
    return bool(device.platform.name == "Portable Computing Language")


def _kept_by_driver(device: Any) -> bool:
    """True if the driver keeps compiled programs itself and finds them by their text."""
    return _is_pocl(device) and os.environ.get("POCL_KERNEL_CACHE", "1") == "1"


def _with_declarations(source: str, options: str, device: Any) -> str | None:
    """Returns the text with the declarations it needs, in place of the header that PoCL 3.0 reads for each program;
    None if it needs the whole header.
    """
    applies = _is_pocl(device) and "PoCL 3.0" in device.platform.version and "-cl-std" not in options
    floats = device.extensions.split() if applies else ()
    return (
        declared(source, multiplies_and_adds(device))
        if "cl_khr_fp64" in floats and "cl_khr_fp16" not in floats
        else None
    )


def _from_source(context: Any, device: Any, source: str, options: str) -> Any:
    short = _with_declarations(source, options, device)
    if short is not None:
        with contextlib.suppress(cl.Error):  # built as it is instead, if only for the messages
            raw = raw_program(context, short)
            _build(raw, device, f"{options} {WITHOUT_HEADER}")
            return cl.Program(raw)
    raw = raw_program(context, source)
    try:
        _build(raw, device, options)
        if _PASSED_THROUGH in source:
            raw = raw_program(context, [device], [_retargeted(_binary(raw))])
            _build(raw, device, "")
    except cl.Error as error:
        log = str(raw.get_build_info(device, cl.program_build_info.LOG))
        names = str(device.name).strip(), f"{str(device.platform.name).strip()} {device.driver_version}"
        raise KernelBuildError(source, options, log or str(error), *names) from error
    return cl.Program(raw)


_PASSED_THROUGH = "//@ "


def _retargeted(binary: bytes) -> bytes:
    """Returns NVIDIA's binary of a program (PTX) for the target with architecture-specific instructions (sm_90a).
    Comments of inline PTX that begin with ``//@`` become instructions. The driver's compiler of OpenCL C has no such
    target, its assembler does.
    """
    text = re.sub(rb"(\.target\s+sm_\d+)a?", rb"\1a", binary.rstrip(b"\0"))
    return text.replace(_PASSED_THROUGH.encode(), b"")


def _from_binary(context: Any, device: Any, binary: bytes, options: str) -> Any:
    """Returns the program of a binary, None if the driver refuses it (another driver build of the same version)."""
    try:
        raw = raw_program(context, [device], [binary])
        _build(raw, device, options)
    except cl.Error:
        return None
    return cl.Program(raw)


def _build(raw: Any, device: Any, options: str) -> None:
    # pyopencl's Program.build warns of every build log (Intel's driver always writes one), keeps binaries of its own
    # and leaves the source of a failed build in the temporary folder; ``_build`` is the call below all that.
    raw._build(options.encode(), [device])


def _binary(program: Any) -> bytes:
    binaries = program.get_info(cl.program_info.BINARIES)
    return bytes(binaries[0]) if binaries else b""


_default: ProgramCache | None = None
_default_lock = threading.RLock()


def default_cache() -> ProgramCache:
    """Returns the ProgramCache that the process shares."""
    global _default
    with _default_lock:
        if _default is None:
            candidate = ProgramCache()
            shutdown.run_at_exit(candidate.persist)
            _default = _default or candidate  # a signal handler may have made it
        return _default
