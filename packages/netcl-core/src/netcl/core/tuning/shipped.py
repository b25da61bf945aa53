"""Reads the measurements of the package: kernels that are faster than the rule's choice on known drivers.

``netcl.profiling.shipping`` measures them into ``tuned.json``, which is stored with the kernels. In a wheel the file
must have the hash in the wheel's RECORD, or it is not used; in an editable installation RECORD does not list it.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import warnings
from functools import lru_cache
from importlib import metadata
from importlib.resources import files
from typing import Any

from netcl.core.device.capabilities import type_of
from netcl.core.process.user_frame import level_outside

_SAME = ("platform", "version", "type", "vendor", "lanes")
_UNITS = 2  # largest ratio of the numbers of compute units


def resource() -> Any:
    """Returns the file of the table."""
    return files("netcl.core") / "backend" / "opencl" / "tuned.json"


def driver_of(device: Any) -> dict[str, Any]:
    """Returns the keys of a measurement: driver and version, kind and vendor of the device, its vectors and units."""
    return {
        "platform": device.platform.name.strip(),
        "version": device.driver_version.strip(),
        "type": type_of(device),
        "vendor": device.vendor.strip(),
        "lanes": int(device.native_vector_width_float),
        "units": int(device.max_compute_units),
    }


def applies(measured: dict[str, Any], here: dict[str, Any]) -> bool:
    """True if a measurement applies elsewhere: driver, class, vector width, compute units within a factor of two."""
    near = max(measured["units"], here["units"]) <= _UNITS * min(measured["units"], here["units"])
    return near and all(measured[name] == here[name] for name in _SAME)


def _recorded_hash() -> str:
    """Returns the SHA-256 of the table in the installed RECORD (base64 without padding), "" if it is not in it."""
    try:
        wheel = metadata.distribution("netcl-core")
    except metadata.PackageNotFoundError:
        return ""
    for row in csv.reader(line for line in (wheel.read_text("RECORD") or "").splitlines() if "tuned.json" in line):
        if len(row) > 1 and os.path.realpath(str(wheel.locate_file(row[0]))) == os.path.realpath(str(resource())):
            return row[1].removeprefix("sha256=")
    return ""


@lru_cache(maxsize=1)
def _content() -> dict[str, Any]:
    content = resource().read_bytes()
    recorded = _recorded_hash()
    if recorded and base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=") != recorded:
        warnings.warn(
            f"{resource()} is not the file that netcl-core was installed with: the rules alone choose kernels. "
            "Install netcl-core again",
            RuntimeWarning,
            stacklevel=level_outside(),
        )
        return {"drivers": []}
    table: dict[str, Any] = json.loads(content)
    return table


@lru_cache(maxsize=64)
def rows_for(device: Any) -> tuple[dict[str, Any], ...]:
    """Returns the rows of the table for a pyopencl device: ``op``, ``shape``, ``dtype``; ``gains``, the speed of each
    kernel relative to the rule's choice; ``config`` of the kernel to use, None if the rule's choice is kept.
    """
    here = driver_of(device)
    tables = _content()["drivers"]
    return next((tuple(table["rows"]) for table in tables if applies(table["driver"], here)), ())
