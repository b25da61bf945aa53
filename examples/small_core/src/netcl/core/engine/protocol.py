"""The engine: the calls of a tensor's device."""

import numpy as np


class HostTransfer:
    """A copy to the host, which is complete."""

    def __init__(self, array):
        self.array = array

    def wait(self):
        """The values."""
        return self.array


class DeviceBackend:
    """The engine of a queue."""

    name, device_label, context, queue = "cpu", "NumPy", None, None

    def __init__(self, handle):
        self.handle, self.queue, self.flags = handle, handle.queue, []

    def empty(self, shape, dtype, *, persistent=False, pool=None):
        """A tensor of undefined content."""
        from netcl.core.tensor import tensor_of

        return tensor_of(np.empty(shape, dtype), queue=self.queue)

    def zeros(self, shape, dtype, *, persistent=False):
        """A tensor of zeros."""
        return self.fill(self.empty(shape, dtype), 0)

    def fill(self, tensor, value):
        """Sets every element; returns the tensor."""
        tensor.array[...] = value
        return tensor

    def copy(self, source, target):
        """Copies the elements of one tensor to another of its shape."""
        target.array[...] = source.array

    def describe(self, program, shapes=()):
        """The kernels of a program: none."""
        return []

    def flag_code(self, message, error=IndexError):
        """The code of a check; checks of NumPy raise at once."""
        self.flags.append((message, error))
        return len(self.flags)
