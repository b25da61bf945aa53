"""Masks capabilities of devices: programs, launches and the engine of a masked queue keep within limits below the
driver's.

A masked queue has a context of its own, in which ``profile_of`` answers with the masked profile; so schedules, kernel
variants and transfers are chosen as on such a device. A launch or program beyond the limits raises UnsupportedError or
does not build, as on such a device.
"""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Mapping, Sequence
from math import gcd, prod
from typing import Any

from netcl.core.backend.opencl.queue.launch import Launcher, Size, launcher_for
from netcl.core.device.capabilities import DeviceProfile, override_profile, profile_of
from netcl.core.device.discovery import DeviceHandle
from netcl.core.device.sub_devices import new_queue
from netcl.core.errors import UnsupportedError
from netcl.core.process.opencl import cl

_STANDARD = re.compile(r"-cl-std=CL(\d\.\d)")
# Names that the compiler rejects once the feature is masked, in addition to the extension's macros.
_WITHOUT = {
    "has_fp64": ("#undef cl_khr_fp64", "#define double no_double_here"),
    "has_fp16": ("#undef cl_khr_fp16", "#pragma OPENCL EXTENSION cl_khr_fp16 : disable"),
    "has_subgroups": (
        *(f"#undef {name}" for name in ("cl_khr_subgroups", "cl_intel_subgroups", "cl_khr_subgroup_shuffle")),
        *(
            f"#define {name} no_sub_groups_here"
            for name in ("get_sub_group_size", "get_sub_group_id", "get_sub_group_local_id", "sub_group_barrier")
        ),
    ),
    "fast_atomics": tuple(f"#undef cl_khr_int64_{kind}_atomics" for kind in ("base", "extended")),
}
# NVIDIA's headers write atomic_max as atom_max, so a macro of that name would take the 32-bit atomics away too.
_WIDE_ATOMICS = re.compile(r"\batom_(?:add|sub|xchg|inc|dec|cmpxchg|min|max|and|or|xor)\b")
_EXTENSIONS = {  # common part of the names of a feature's extensions
    "has_fp64": "fp64",
    "has_fp16": "fp16",
    "has_subgroups": "subgroup",
    "fast_atomics": "cl_khr_int64_",
    "has_command_buffer": "command_buffer",
}


class MaskedLauncher(Launcher):
    """A Launcher that limits programs and launches to the masked profile of its queue."""

    can_defer = False  # it refuses launches, and the launching call has to report that

    def __init__(self, queue: Any) -> None:
        super().__init__(queue)
        self.profile: DeviceProfile = profile_of(queue)
        undefined = [line for name, lines in _WITHOUT.items() if not getattr(self.profile, name) for line in lines]
        self._head = "".join(line + "\n" for line in undefined)
        number = re.search(r"\d\.\d", self.profile.opencl_c_version)
        self._standard = number[0] if number else "1.2"

    def fit(self, kernel_name: str, global_size: Size, local_size: Size | None) -> Size | None:
        limit = self.profile.max_work_group_size
        if local_size is None:  # the driver's choice may exceed the limit
            return (gcd(global_size[0], min(limit, 32)) or 1, *(1 for _ in global_size[1:]))
        if prod(local_size) > limit:
            raise UnsupportedError(
                f"kernel {kernel_name}: expected a group of at most {limit} work-items, got {local_size}",
                op=kernel_name,
            )
        return local_size

    def program(self, source: str, options: str) -> Any:
        requested = _STANDARD.search(options)
        if requested and requested[1] > self._standard:
            raise UnsupportedError(f"expected a standard up to OpenCL C {self._standard}, got {requested[0]}")
        # -w: compilers warn of a macro of theirs that is taken away.
        standard = " -w" if requested else f" -w -cl-std=CL{self._standard}"
        head = self._head
        if not self.profile.fast_atomics and _WIDE_ATOMICS.search(source):
            head += "#error there are no 64-bit atomics here\n"
        return super().program(head + source, (options + standard).strip())

    def _new_kernel(self, source: str, kernel_name: str, args: Sequence[Any] | None, options: str) -> Any:
        kernel = super()._new_kernel(source, kernel_name, args, options)
        used = int(kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, self.device))
        if used > self.profile.local_mem_size:
            raise UnsupportedError(
                f"kernel {kernel_name}: {used} bytes of local memory, the device has {self.profile.local_mem_size}",
                op=kernel_name,
            )
        return kernel


_handles: dict[tuple[Any, ...], DeviceHandle] = {}
_lock = threading.RLock()


def masked_handle(handle: DeviceHandle, limits: Mapping[str, Any]) -> DeviceHandle:
    """Returns the device of ``handle`` with the fields ``limits`` of its DeviceProfile replaced; the same handle for
    the same limits. A number is an upper limit; ``is_cpu=False`` makes it a GPU, ``is_cpu=True`` a CPU.
    """
    fields = dict(limits)
    real = profile_of(handle)
    for name in ("max_work_group_size", "local_mem_size"):
        if name in fields:
            fields[name] = min(fields[name], getattr(real, name))
    if "is_cpu" in fields:
        fields.setdefault("device_type", "cpu" if fields["is_cpu"] else "gpu")
    gone = [part for name, part in _EXTENSIONS.items() if fields.get(name) is False]
    fields["extensions"] = frozenset(name for name in real.extensions if not any(part in name for part in gone))
    with _lock:
        key = (handle.device.int_ptr, *sorted(limits.items()))
        masked = _handles.get(key)
        if masked is None:
            context = cl.Context([handle.device])
            queue = new_queue(context, handle.device)
            profile = dataclasses.replace(real, **fields)
            override_profile(context, profile)
            masked = dataclasses.replace(handle, device_type=profile.device_type, context=context, queue=queue)
            launcher_for(queue, MaskedLauncher)
            masked = _handles.setdefault(key, masked)  # a signal handler may have made it
        return masked
