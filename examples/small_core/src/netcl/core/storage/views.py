"""What a tensor shares with its views."""

from collections import namedtuple

from netcl.core.errors import UnsupportedError

Geometry = namedtuple("Geometry", "shape strides offset", defaults=(0,))


def root_of(tensor):
    """The storage of the elements."""
    return tensor.storage


def separate(x):
    """``x``, with storage of its own."""
    x.data = x.clone()
    return x


def check_writable(target):
    """UnsupportedError if elements share memory with each other."""
    if any(step == 0 and size > 1 for size, step in zip(target.shape, target.stride())):
        raise UnsupportedError("elements of an expanded tensor share memory; write into its clone()")
