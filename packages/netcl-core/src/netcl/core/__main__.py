"""``python -m netcl.core [doctor [--full] [--html FILE]]``: reports platforms, devices, drivers and missing
packages, or checks all.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import platform
import sys
from collections.abc import Sequence

from netcl.core import config
from netcl.core.__about__ import __version__
from netcl.core.device import icd, plugins
from netcl.core.device.capabilities import DeviceProfile
from netcl.core.device.discovery import manager
from netcl.core.errors import NetclError, format_bytes
from netcl.core.testing import doctor


def _features(profile: DeviceProfile) -> str:
    names = {
        "fp16": profile.has_fp16,
        "fp64": profile.has_fp64,
        "sub-groups": profile.has_subgroups,
        "64-bit atomics": profile.fast_atomics,
        "SVM": profile.has_svm,
        "command buffer": profile.has_command_buffer,
    }
    return ", ".join(name for name, there in names.items() if there) or "none of the optional features"


def _report_drivers() -> None:
    print("drivers found")
    drivers = icd.find_drivers()
    for driver in drivers:
        print(f"  {driver.name}: {driver.library or 'no library'} ({driver.origin})")
        if driver.problem:
            print(f"    not usable: {driver.problem}")
    if not drivers:
        print("  none by netcl; the drivers of the system's own registry appear among the platforms")


def _report_devices() -> None:
    print("platforms and devices")
    shown = None
    for selector, cl_platform, dev in manager.numbered():
        if cl_platform != shown:
            print(f"  {cl_platform.name.strip()}, {cl_platform.version.strip()}")
            shown = cl_platform
        profile = manager.profile(dev)
        print(f"    {selector}  {profile.device_type}  {profile.name}, driver {dev.driver_version}")
        print(
            f"      {profile.compute_units} compute units, {format_bytes(profile.global_mem_size)} memory, "
            f"{format_bytes(profile.local_mem_size)} local, work-groups to {profile.max_work_group_size}"
        )
        print(f"      {_features(profile)}")
    _report_plugins()
    host = manager.default("cpu")
    print("  NumPy, always there")
    if host is not None:
        print(f"    cpu  cpu  {host.device_name}, {host.profile.compute_units} cores")


def _report_plugins() -> None:
    for name, (_, _, handles) in plugins.find().items():
        print(f"  {name}, a backend of another distribution")
        for handle in handles:
            profile = handle.profile
            print(f"    {handle.selector}  {handle.device_type}  {handle.device_name}, {handle.platform_name}")
            print(f"      {profile.compute_units} compute units, {format_bytes(profile.global_mem_size)} memory")
        if not handles:
            print("    no device")
    for name, problem in plugins.problems().items():
        print(f"  {name}, a backend that cannot be loaded: {problem}")


def main(arguments: Sequence[str] = ()) -> int:
    """Runs the command of ``arguments``: the doctor, or without any the report."""
    parser = argparse.ArgumentParser(prog="python -m netcl.core", description="What netcl finds on this machine.")
    commands = parser.add_subparsers(dest="command")
    examination = commands.add_parser("doctor", help="run every kernel family on every device against NumPy")
    examination.add_argument("--full", action="store_true", help="every op, and every device as smaller ones")
    examination.add_argument("--html", metavar="FILE", help="also write the results as a page")
    chosen = parser.parse_args(arguments)
    if chosen.command != "doctor":
        return report()
    captured = io.StringIO()
    if chosen.html:
        with contextlib.redirect_stdout(captured):
            report()
    return doctor.run(chosen.full, chosen.html, captured.getvalue())


def report() -> int:
    """Prints the report; returns 1 if NETCL_ variables name a device that does not exist."""
    print(f"netcl-core {__version__}, Python {platform.python_version()} on {platform.platform()}")
    try:
        import pyopencl

        print(f"pyopencl {pyopencl.VERSION_TEXT}")
    except ImportError as error:
        print(f"pyopencl: not there ({error})")
    _report_drivers()
    try:
        _report_devices()
        chosen = manager.default("auto")
    except (NetclError, ImportError) as error:
        print(f"the default device cannot be used: {error}")
        return 1
    if chosen is not None:
        how = "" if config.get("DEVICE") == "auto" else f" (NETCL_DEVICE={config.get('DEVICE')})"
        print(f"default device\n  {chosen.selector}  {chosen.device_name} ({chosen.platform_name}){how}")
    print(f"what to install\n  {icd.advice()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
