"""The capabilities of a device."""

import os
from collections import namedtuple

DeviceProfile = namedtuple(
    "DeviceProfile",
    "name vendor device_type compute_units global_mem_size has_fp16 has_fp64",
    defaults=("NumPy", "NumPy", "CPU", os.cpu_count(), 2**33, False, True),
)
