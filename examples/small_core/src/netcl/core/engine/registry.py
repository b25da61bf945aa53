"""The one engine of each queue."""

from netcl.core.device import CPUQueue, DeviceHandle, get_active_device, manager
from netcl.core.engine.protocol import DeviceBackend
from netcl.core.errors import BackendMismatchError

_factories, _engines = {}, {}


def register_backend(name, factory):
    """Makes ``factory(queue)`` the engine of queues of a backend."""
    _factories[name] = factory


def engine_for(queue=None):
    """The engine of a queue or handle; None is the active device."""
    found = getattr(queue, "queue", queue) or get_active_device().queue
    if found not in _engines:
        factory = _factories.get(found.backend)
        _engines[found] = factory(found) if factory else DeviceBackend(manager.default(found))
    return _engines[found]


def get_backend(tensor):
    """The engine that computes on a tensor."""
    return tensor.engine


def ensure_same_backend(tensors, op=""):
    """The one engine of all tensors; BackendMismatchError if there are two."""
    engines = {one.engine for one in tensors}
    if len(engines) != 1:
        raise BackendMismatchError(f"{op}: tensors are on {len(engines)} devices; move them with to()", op=op)
    return engines.pop()


def is_opencl(tensor):
    """False: no data is in a buffer of OpenCL."""
    return False


def is_queue(value):
    """True for a queue or a handle."""
    return isinstance(value, (CPUQueue, DeviceHandle)) or getattr(value, "backend", None) in _factories
