"""Writes in place."""

from netcl.core.storage.views import check_writable

DATA = object()


def write(target, value):
    """Gives ``target`` the values of ``value``, converted, but no fraction to integers."""
    check_writable(target)
    return target.put(getattr(value, "array", value))


def copy(target, source, what="copy_"):
    """Copies from any dtype."""
    return write(target, source.astype(target.dtype))


def fill(target, value):
    """Sets every element."""
    return write(target, value)
