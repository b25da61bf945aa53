"""The devices of this core: one, the processor."""

import threading
from collections import namedtuple
from contextlib import contextmanager

from netcl.core.config import get
from netcl.core.device_profile import DeviceProfile
from netcl.core.errors import DeviceNotFoundError


class CPUQueue:
    """The queue of the processor: work is complete when a call returns."""

    backend, context, device = "cpu", None, None

    def finish(self):
        """Returns at once."""


class DeviceHandle(namedtuple("DeviceHandle", "platform_name device_name backend device_type context queue")):
    """A device with its context and queue, which it unpacks to."""

    device, index, profile = None, None, DeviceProfile()
    type = property(lambda self: self.device_type)
    selector = property(lambda self: self.backend)
    __str__ = selector.fget

    def __iter__(self):
        return iter((self.context, self.queue))


class DeviceManager:
    """Finds the devices."""

    devices, profiles = [], []

    def __init__(self):
        self.handle = DeviceHandle("NumPy", "NumPy", "cpu", "cpu", None, CPUQueue())

    def default(self, device="auto"):
        """The handle of a selector, a handle or a queue; DeviceNotFoundError if there is none."""
        chosen = get("DEVICE") if device in ("auto", None) else getattr(device, "queue", device)
        if chosen is self.handle.queue or chosen in ("auto", "cpu", "cpu:0"):
            return self.handle
        raise DeviceNotFoundError(f"there is no device {chosen!r}; there is {self.describe()}")

    def select(self, name=None, platform=None, device_type=None, requires=()):
        """All devices that match."""
        return [self.handle] if device_type in (None, "cpu") and not requires else []

    # Pairs of platform and device of OpenCL, of which there are none; the best device.
    discover = gpus = staticmethod(list)
    describe = staticmethod(lambda: "cpu  cpu  NumPy")
    pick_default = default

    def profile(self, dev=None):
        """The capabilities of a device."""
        return self.handle.profile


manager = DeviceManager()
_active, _default = threading.local(), []


@contextmanager
def device(selector):
    """Inside, the device of ``selector`` is active in this thread."""
    before, _active.handle = getattr(_active, "handle", None), manager.default(selector)
    try:
        yield _active.handle
    finally:
        _active.handle = before


def get_active_device():
    """The device of the innermost ``device(...)``, or the default."""
    return getattr(_active, "handle", None) or (_default[-1] if _default else manager.default())


def set_default_device(device):
    """Makes a device the active one of all threads; None undoes it."""
    _default[:] = [] if device is None else [manager.default(device)]


# No driver is used, and nothing is computed by PyTorch.
drivers_loaded = free_torch_name = lambda: False


def use_pytorch_names(enabled=True):
    """Selects PyTorch's names of devices; ``cpu`` is the same in both."""
