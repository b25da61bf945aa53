"""Keeps the table of measured kernels on disk per driver: the fastest kernel of each measured shape.

``netcl.profiling.autotuner`` measures. One file per driver version in NETCL_CACHE_DIR (``cache_files``), read once per
process. A file that is damaged or not to be trusted is measured again; if it cannot be written, the table is
kept in this process alone. The table of the package (``shipped``) is asked after it, unless NETCL_AUTOTUNE=on measures
each shape here.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import math
import threading
from pathlib import Path
from typing import Any

from netcl.core import config
from netcl.core.__about__ import __version__
from netcl.core.device.capabilities import device_profile, profile_of
from netcl.core.device.discovery import drivers_loaded, manager
from netcl.core.device.drivers.child_probe import driver_key
from netcl.core.device.profile import ExtendedDeviceProfile, extended_device_profile
from netcl.core.process import cache_files
from netcl.core.tuning import shipped
from netcl.core.tuning.choices import KernelChoices, choices_of, forget_choices, keep_on_disk
from netcl.core.tuning.kernel_config import KernelConfig, KernelVariant

# Sizes of a shape that a measurement may differ in, at most by the factor 2; the following fields must be the same.
_SCALED = {"matmul": 3, "conv2d": 5}
_NEAR = 1.0  # in powers of two

Shape = tuple[Any, ...]
Entries = dict[tuple[str, Shape, str], "KernelConfig | None"]  # None: the kernels' own rule

_tables: dict[str, Entries] = {}
_shipped: dict[str, Entries] = {}
_choices: dict[Any, KernelChoices] = {}  # by engine
_lock = threading.RLock()


def fastest_kernel(engine: Any, op: str, shape: Shape, dtype: str) -> str | None:
    """Returns the name of the kernel measured as the fastest for ``op`` on this engine; None if the rule decides:
    nothing was measured near ``shape``, or NETCL_AUTOTUNE=off or NETCL_DETERMINISTIC=1.

    With NETCL_AUTOTUNE=on a new shape is measured now.
    """
    mode = config.get("AUTOTUNE")
    if mode == "off" or engine.name != "cl":
        return None
    key = _keys.get(engine) or driver_key_of(engine)
    if mode == "cached" and not (_tables.get(key) or (key not in _tables and table(key))):
        package = _shipped.get(key)  # first without the device, which queries the driver
        if not (shipped_table(key, engine.queue.device) if package is None else package):
            return None
    if mode == "on" and engine.recording is not None and nearest(table(key), op, shape, dtype) is None:
        return None  # a step that is captured measures nothing
    choices = _choices.get(engine)
    if choices is None:
        choices = _choices[engine] = choices_of(engine.queue)
    chosen = choices.measured(op, shape, dtype)
    return None if chosen is None else chosen.extra.get("kernel")


def lookup(profile: ExtendedDeviceProfile, op: str, shape: Shape, dtype: str) -> KernelConfig | None:
    """Returns the measured config for a device, as ``kernel_selector.register_measurements`` expects it."""
    engine = next((engine for engine, choices in list(_choices.items()) if choices.profile == profile), None)
    device = _device_for(profile) if engine is None else engine.queue.device
    if device is None:
        return None
    key = driver_key(device) if engine is None else driver_key_of(engine)
    nearest_config = nearest(table(key), op, shape, dtype)
    if config.get("AUTOTUNE") != "on":
        return nearest_config or nearest(shipped_table(key, device), op, shape, dtype)
    if engine is None or (nearest_config is not None and "measured_for" not in nearest_config.extra):
        return nearest_config
    measure = importlib.import_module("netcl.profiling.autotuner").measure
    measured: KernelConfig | None = measure(engine, op, shape, dtype)
    return measured or nearest_config


def candidates(engine: Any, op: str, dtype: str) -> set[str]:
    """Returns the kernels that were measured on this driver, at any shape, here or for the table of the package."""
    kernels: set[str] = set()
    for (other, _, other_dtype), chosen in list(table(driver_key_of(engine)).items()):
        if (other, other_dtype) == (op, dtype) and chosen is not None:
            kernels.update(chosen.extra.get("candidates", ()))
    if profile_of(engine.queue) == device_profile(engine.queue.device):
        rows = shipped.rows_for(engine.queue.device)
        kernels.update(kernel for row in rows if (row["op"], row["dtype"]) == (op, dtype) for kernel in row["gains"])
    return kernels


def store(engine: Any, op: str, shape: Shape, dtype: str, chosen: KernelConfig) -> None:
    """Keeps a measurement, here and (unless NETCL_CACHE=0) on disk; selectors choose again."""
    key = driver_key_of(engine)
    with _lock:
        entries = table(key)
        path = _path(key)
        if path is not None:
            entries.update(_read(path, key))  # later measurements of other processes
        entries[op, shape, dtype] = chosen
        if path is not None:
            _write(path, key, entries)
    forget_choices()


def forget() -> None:
    """Forgets the measurements of this process and on disk."""
    with _lock:
        _tables.clear()
        folder = _folder()
        for path in folder.glob("*.json") if folder is not None else ():
            cache_files.remove(path)
    forget_choices()


def nearest(entries: Entries, op: str, shape: Shape, dtype: str) -> KernelConfig | None:
    """Returns the measurement for this shape, or for the nearest within a factor of two in each size, with its own
    shape in ``extra["measured_for"]``; None also if the rule was the fastest.
    """
    if (op, shape, dtype) in entries or not entries:
        return entries.get((op, shape, dtype))
    best: tuple[float, Shape, KernelConfig | None] | None = None
    for (other_op, other, other_dtype), chosen in list(entries.items()):
        if (other_op, other_dtype) != (op, dtype) or op not in _SCALED:
            continue
        far = _distance(shape, other, _SCALED[op])
        if far is not None and (best is None or far < best[0]):
            best = far, other, chosen
    if best is None:
        return None
    _, other, near = best
    return near and dataclasses.replace(near, extra={**near.extra, "measured_for": other})


def _distance(shape: Shape, other: Shape, scaled: int) -> float | None:
    """Returns the sum of the sizes' distances in powers of two; None if a size is too far off, or a part differs."""
    if shape[scaled:] != other[scaled:] or min(*shape[:scaled], *other[:scaled]) < 1:
        return None
    steps = [abs(math.log2(a / b)) for a, b in zip(shape[:scaled], other[:scaled])]
    return sum(steps) if max(steps) <= _NEAR else None


_keys: dict[Any, str] = {}


def driver_key_of(engine: Any) -> str:
    """Returns the key of an engine's driver and of its masked limits."""
    key = _keys.get(engine)
    if key is None:
        profile = choices_of(engine.queue).profile
        real = extended_device_profile(engine.queue.device)
        key = driver_key(engine.queue.device) + ("" if profile == real else f" seen as {profile.base}")
        _keys[engine] = key
    return key


def _device_for(profile: ExtendedDeviceProfile) -> Any:
    """Returns the device in use with this profile; None if there is none."""
    if not drivers_loaded():
        return None
    devices = (device for _, device in manager.discover())
    return next((device for device in devices if extended_device_profile(device) == profile), None)


def shipped_table(key: str, device: Any) -> Entries:
    """Returns the package's table for a device by driver ``key``; empty if the rule decides, or if it is masked."""
    entries = _shipped.get(key)
    if entries is None:
        rows = shipped.rows_for(device) if key == driver_key(device) else ()
        entries = {
            (row["op"], tupled(row["shape"]), row["dtype"]): row["config"] and _config(row["config"]) for row in rows
        }
        _shipped[key] = entries = entries if any(entries.values()) else {}
    return entries


def table(key: str) -> Entries:
    """Returns all measurements of a driver, read from disk at the first use."""
    entries = _tables.get(key)
    if entries is None:
        with _lock:
            entries = _tables.get(key)
            if entries is None:
                path = _path(key)
                entries = _tables[key] = {} if path is None else _read(path, key)
    return entries


def _folder() -> Path | None:
    return cache_files.shared_folder("tuning")


def _path(key: str) -> Path | None:
    folder = _folder()
    digest = hashlib.sha256(_checked(key).encode()).hexdigest()[:24]
    return None if folder is None else folder / f"{digest}.json"


def _checked(key: str) -> str:
    """Returns the key of the checksum: a file of another driver or version does not match."""
    return f"{__version__}\0{key}"


def _read(path: Path, key: str) -> Entries:
    """Returns the entries of a file; none if it is missing or, with a warning, damaged or not to be trusted."""
    try:
        rows = json.loads(cache_files.read(path, _checked(key)))["entries"]
        return {(row["op"], tupled(row["shape"]), row["dtype"]): _config(row["config"]) for row in rows}
    except FileNotFoundError:
        return {}
    except cache_files.DamagedEntryError as error:
        config.get_logger().warning("kernels are measured again: %s", error)
    except OSError as error:
        cache_files.warn_once(path.parent, error)
    return {}


def _write(path: Path, key: str, entries: Entries) -> None:
    rows = [
        {"op": op, "shape": shape, "dtype": dtype, "config": row_of(chosen)}
        for (op, shape, dtype), chosen in entries.items()
        if chosen is not None
    ]
    content = {"driver": key, "netcl-core": __version__, "entries": rows}
    try:
        cache_files.write(path, _checked(key), json.dumps(content, indent=1).encode())
    except OSError as error:
        cache_files.warn_once(path.parent, error)


def row_of(chosen: KernelConfig) -> dict[str, Any]:
    """Returns a config as JSON data."""
    return {**vars(chosen), "variant": chosen.variant.name}


def _config(row: dict[str, Any]) -> KernelConfig:
    fields = {name: tupled(value) if isinstance(value, list) else value for name, value in row.items()}
    return KernelConfig(**{**fields, "variant": KernelVariant[fields["variant"]]})


def tupled(value: Any) -> Any:
    """Returns JSON data with its lists as tuples."""
    return tuple(tupled(item) for item in value) if isinstance(value, list) else value


keep_on_disk(lookup)
